"""Does a server answer as the transformers sampler does? Writes bench/results/agreement.md.

    export VLLM=... LLAMA_SERVER=...              # as for ``make bench``
    export LLAMA_FLOAT32=smollm2-f32.gguf         # llama-quantize --allow-requantize FILE.gguf smollm2-f32.gguf F32
    export TRANSFORMERS_SERVE=.../transformers    # of an environment with transformers[serving]
    python -m bench.agreement

Greedy, 100 problems, both endpoints. All compute in float32, where two right programs differ only by the order of their
sums; llama.cpp also runs the file of four-bit weights as people use it, which it does not expand. A server that is not
set is left out. Run folders stay in outputs/bench-agreement/: a run goes on where it was interrupted.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import plan, systems
from bench.__main__ import MAX_NEW_TOKENS, ROOT
from bench.workers.server import stop, wait_until_ready
from bench.writing import processor, table
from gsm8k_nb import data, prompts, sampling, scoring
from gsm8k_nb.config import RunConfig
from gsm8k_nb.manifest import now
from gsm8k_nb.records import Sample, Score
from gsm8k_nb.samplers.loading import converted_gguf

N = 100
PORT = 8190  # a fixed one: the address is part of a run's id
ENDPOINTS = {"template": "/chat/completions", "plain": "/completions"}  # by RunConfig.chat_template
STORED = ROOT / "outputs" / "bench-agreement"
HEAD = ("server", "computes in", "endpoint", f"right of {N}", "ours", "same verdict", "same text", "tokens before")
Answers = dict[str, tuple[Sample, Score]]  # by problem


def servers() -> Iterator[tuple[str, str, list[str], dict[str, str]]]:
    """Name, dtype, command and environment of each server that is there."""
    folder, here = str(converted_gguf(plan.model_file())), ["--host", "127.0.0.1", "--port", str(PORT)]
    if binary := systems.location(plan.LLAMA):
        library = {"LD_LIBRARY_PATH": str(Path(binary).parent)}
        options = ["-t", str(systems.THREADS), "--parallel", "8", "-c", "16384", *here]
        yield "llama.cpp", "Q4_1", [binary, "-m", str(plan.model_file()), *options], library
        if file := os.environ.get("LLAMA_FLOAT32"):
            yield "llama.cpp", "float32", [binary, "-m", file, "-ctk", "f32", "-ctv", "f32", *options], library
    if binary := systems.location(plan.VLLM):
        options = ["--dtype", "float32", "--max-model-len", "2048", "--served-model-name", folder, *here]
        yield "vLLM's CPU build", "float32", [binary, "serve", folder, *options], systems.VLLM_ENVIRONMENT
    if binary := os.environ.get("TRANSFORMERS_SERVE"):
        yield "transformers serve", "float32", [binary, "serve", "--device", "cpu", "--dtype", "float32", *here], {}


@contextmanager
def running(command: list[str], environment: dict[str, str], log: Path) -> Iterator[str]:
    """The server's address while it runs."""
    url = f"http://127.0.0.1:{PORT}/v1"
    with log.open("w") as out:
        everything = os.environ | environment | {"HF_HUB_OFFLINE": "1"}
        server = subprocess.Popen(command, stdout=out, stderr=out, env=everything, start_new_session=True)
    try:
        wait_until_ready(server, {"base_url": url, "log": log})
        yield url
    finally:
        stop(server)


def answers(name: str, chat_template: str, **how) -> Answers:
    """The first problems' greedy answers and their scores under ``flexible``."""
    config = RunConfig(
        data_path=str(ROOT.parent / "shared" / "gsm8k" / "test.jsonl"), limit=N, prompt="wei_8shot", smoke=0,
        chat_template=chat_template, max_new_tokens=MAX_NEW_TOKENS, outputs_dir=str(STORED / name), **how,
    )  # fmt: skip
    source, problems = data.load_for(config)
    run = sampling.begin(config, source, problems)
    print(name, chat_template, sampling.fill(run, config, problems, prompts.prompt_for(config, problems)), flush=True)
    samples = {sample.problem_id: sample for sample in run.journal().samples.values()}
    scores = scoring.score_all(problems, samples.values(), ("flexible",))
    return {score.problem_id: (samples[score.problem_id], score) for score in scores}


def compared(ours: Answers, theirs: Answers, tokenizer) -> tuple[list[object], list[str]]:
    """The cells of a line of the table, and a line for each problem on which the verdicts differ."""
    right = [sum(bool(score.correct) for _, score in each.values()) for each in (theirs, ours)]
    pairs = [(ours[key], theirs[key]) for key in ours]
    same_verdict = sum(a.correct == b.correct for (_, a), (_, b) in pairs)
    texts = [(a.text, b.text) for (a, _), (b, _) in pairs]
    ids = [tuple(tokenizer(text).input_ids for text in pair) for pair in texts]
    common = sum(len(os.path.commonprefix(pair)) for pair in ids) / max(sum(len(a) for a, _ in ids), 1)
    apart = [
        f"{key}: ours {a.predicted}, theirs {b.predicted}"
        for key, ((_, a), (_, b)) in zip(ours, pairs, strict=True)
        if a.correct != b.correct
    ]
    return [*right, same_verdict, sum(a == b for a, b in texts), f"{common:.1%}"], apart


def main() -> int:
    from transformers import AutoTokenizer

    model = str(converted_gguf(plan.model_file()))
    tokenizer = AutoTokenizer.from_pretrained(model)
    ours = {chat: answers("transformers", chat, dtype="float32") for chat in ENDPOINTS}
    rows, notes = [], []
    for name, dtype, command, environment in servers():
        label = f"{name}-{dtype}".replace("'", "").replace(" ", "-")
        with running(command, environment, STORED / f"{label}.log") as url:
            for chat, endpoint in ENDPOINTS.items():
                how = {"sampler": "openai", "model": model, "base_url": url, "concurrency": 16, "request_timeout": 3600}
                cells, apart = compared(ours[chat], answers(label, chat, **how), tokenizer)
                rows.append([name, dtype, f"`{endpoint}`", *cells])
                notes += [f"- {name}, {dtype}, `{endpoint}`, {line}" for line in apart]
    text = TEXT.format(machine=processor(), date=now(), n=N, table=table(HEAD, rows), notes="\n".join(notes) or "None.")
    (ROOT / "bench" / "results" / "agreement.md").write_text(text, encoding="utf-8")
    print(text)
    return 0


TEXT = """# Agreement with servers

{machine}, {date} (UTC), by `python -m bench.agreement`.

SmolLM2-135M-Instruct, greedy, the first {n} problems of the test split after the eight exemplars of Wei et al., as
turns by `/chat/completions` and as text by `/completions`. At most 128 new tokens, answers read by `flexible`. Ours is
the transformers sampler in float32; the tokens counted are those of ours that stand before the first difference.

{table}

Problems on which the verdicts differ:

{notes}
"""


if __name__ == "__main__":
    sys.exit(main())
