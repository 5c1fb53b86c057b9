"""How long it takes to score 1319 problems x 64 samples under strict and flexible, with every pass@k and maj@k.

    python bench/bench_scoring.py [FOLDER WITH test.jsonl AND example_model_solutions.jsonl]

The completions are OpenAI's released solutions, four systems, each repeated sixteen times with another ending, so that
no two texts of a problem are the same. Prints a Markdown table; one process, one core.
"""

import json
import os
import resource
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from gsm8k_nb import data, metrics  # noqa: E402
from gsm8k_nb.answers import RULES, extract, judge  # noqa: E402

COLUMNS = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
ENDINGS = tuple("\n" + ending for ending in ("", "#### {}", "So the answer is {}.", "\\boxed{{{}}}"))


def completions(folder: Path) -> list[list[str]]:
    """64 texts a problem: each released solution, its answer restated in four ways and padded in four."""
    pools = []
    for line in (folder / "example_model_solutions.jsonl").open():
        row = json.loads(line)
        texts = [row[column]["solution"] for column in COLUMNS]
        answers = [text.rsplit("A: ", 1)[-1] for text in texts]
        pools.append(
            [
                text + ending.format(answer) + " " * blank
                for text, answer in zip(texts, answers, strict=True)
                for ending in ENDINGS
                for blank in range(4)
            ]
        )
    return pools


def main(folder: Path) -> None:
    problems = data.load(path=str(folder / "test.jsonl"))
    pools = completions(folder)
    n = sum(map(len, pools))
    start_memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rows = []
    verdicts, answers = {}, {}
    for rule in ("strict", "flexible"):
        started = time.process_time()
        judged = [[judge(text, p.answer, rule) for text in pool] for p, pool in zip(problems, pools, strict=True)]
        rows.append((f"verdicts, {rule}", time.process_time() - started))
        verdicts[rule] = [[right for _, right in pool] for pool in judged]
        answers[rule] = [[read for read, _ in pool] for pool in judged]
    started = time.process_time()
    golds = [problem.answer for problem in problems]
    for rule in verdicts:
        metrics.pass_curve(verdicts[rule])
        metrics.maj_curve(answers[rule], golds)
    rows.append(("pass@k and maj@k for k = 1 to 64, both rules", time.process_time() - started))
    rows.append(("all of it", sum(seconds for _, seconds in rows)))
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start_memory) / 1024
    print(f"| {n:,} completions | seconds of one core |\n|---|---|")
    for name, seconds in rows:
        print(f"| {name} | {seconds:.2f} |")
    print(f"\nPeak memory above the texts: {memory:.0f} MB; {n} completions in {rows[-1][1]:.1f} s.\n")
    print("| rule | µs a completion |\n|---|---|")
    sample = [text for pool in pools[::20] for text in pool]
    for rule in RULES:
        try:
            started = time.process_time()
            for text in sample:
                extract(text, rule)
        except ImportError:
            continue  # an extra that is not installed
        print(f"| {rule} | {1e6 * (time.process_time() - started) / len(sample):.1f} |")


if __name__ == "__main__":
    root = Path(__file__).resolve().parents[1]
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else root.parent / "shared" / "gsm8k")
