"""Measure everything in one go and write bench/results/: ``make bench``, or ``python -m bench --help``.

Each measurement is a process of its own and is stored in outputs/bench/ as soon as it is made; ``--resume`` keeps what
is there, ``--write-only`` only makes the tables and figures from it. See ``systems`` for how peers are found.
"""

import argparse
import json
import os
import shutil
import sys
from dataclasses import asdict, replace
from pathlib import Path

from tokenizers import Tokenizer

from bench import house, plan, systems, writing
from gsm8k_nb import data
from gsm8k_nb.config import RunConfig
from gsm8k_nb.prompts import prompt_for, render, stops
from gsm8k_nb.samplers import cut_at_stop
from gsm8k_nb.samplers.loading import converted_gguf
from gsm8k_nb.sampling.manifest import environment, now

ROOT = Path(__file__).resolve().parents[1]
STORED = ROOT / "outputs" / "bench"
MAX_NEW_TOKENS = 128
WARM_UP = 16  # problems, none of those measured, that a server answers before the clock starts


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    stored = STORED.with_name("bench-quick") if options.quick else STORED
    if not (options.resume or options.write_only):
        shutil.rmtree(stored, ignore_errors=True)
    stored.mkdir(parents=True, exist_ok=True)
    if not options.write_only:
        measure(options, stored)
    records = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(stored.glob("*.json"))}
    folder = stored / "results" if options.quick else ROOT / "bench" / "results"
    print(writing.write(records, folder, plan.pieces(options.quick)))
    return 0


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    found.add_argument("--quick", action="store_true", help="the same on eight problems, a quarter of an hour")
    found.add_argument("--resume", action="store_true", help="keep what was measured before and go on")
    found.add_argument("--write-only", action="store_true", help="measure nothing, write the results anew")
    found.add_argument("--only", metavar="TEXT", default="", help="measure only what has this text in its name")
    found.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "gsm8k", help="folder of GSM8K's files")
    return found


def measure(options: argparse.Namespace, stored: Path) -> None:
    """Every measurement that is wanted and not there yet; one that fails is told and the next one goes on."""
    problems = data.load(path=str(options.data / "test.jsonl"))
    by_name = {piece.name: piece for piece in plan.pieces(options.quick)}
    for name in [*by_name, *house.NAMES]:
        file = stored / f"{name}.json"
        if options.only not in name or file.exists():
            continue
        if name in by_name and systems.location(by_name[name].system) is None:
            print(f"{name}: not run, {systems.VARIABLES[by_name[name].system]} is not set", flush=True)
            continue
        try:
            found = text_piece(by_name[name], problems, stored) if name in by_name else house.run(name, options.data)
        except RuntimeError as error:
            print(f"{name}: FAILED\n{error}", file=sys.stderr, flush=True)
            continue
        busy = found["cpu_seconds"] / found["seconds"]
        facts = {"name": name, "date": now(), "threads": systems.THREADS, "environment": environment()}
        file.write_text(json.dumps(facts | found), encoding="utf-8")
        print(f"{name}: {found['seconds']:.1f} s, {busy:.2f} cores busy", flush=True)


def text_piece(piece: plan.Piece, problems: list, stored: Path) -> dict:
    """Run one system on the first problems of the test split; the result has the piece and all sizes in tokens too.

    ``ids`` are the completions up to the stop string, encoded by one tokenizer for all systems.
    """
    gguf = plan.model_file()
    folder = converted_gguf(gguf)
    form = prompt_for(RunConfig(prompt="wei_8shot"), [])
    form = replace(form, exemplars=form.exemplars[: piece.shots])
    prompts = [render(form, problem.question, chat=False) for problem in problems[: piece.problems + WARM_UP]]
    job = {
        "model": str(folder),
        "gguf": str(gguf),
        "dtype": piece.dtype,
        "prompts": prompts[: piece.problems],
        "warm_up": prompts[piece.problems :],
        "n_samples": piece.n_samples,
        "temperature": 0.0 if piece.n_samples == 1 else 0.7,
        "max_new_tokens": MAX_NEW_TOKENS,
        "stop": list(stops(form, chat=False)),
    }
    found = systems.run(piece, job, stored)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    sizes = [tokenizer.encode(prompt).ids for prompt in job["prompts"]]
    prefix = len(os.path.commonprefix(sizes))
    ids = [[tokenizer.encode(cut_at_stop(text, job["stop"])[0]).ids for text in texts] for texts in found["texts"]]
    return found | {
        "piece": asdict(piece), "prefix": prefix, "questions": [len(each) - prefix for each in sizes], "ids": ids
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
