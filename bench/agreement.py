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
import sys
from collections.abc import Iterator
from typing import Any

from bench import plan, systems
from bench.__main__ import MAX_NEW_TOKENS, ROOT
from bench.workers.server import running
from bench.writing import processor, table
from gsm8k_nb import data, prompts, sampling, scoring
from gsm8k_nb.config import RunConfig
from gsm8k_nb.records import Sample, Score
from gsm8k_nb.samplers.loading import converted_gguf
from gsm8k_nb.sampling.manifest import now

N = 100
PORT = 8190  # a fixed one: the address is part of a run's id
ENDPOINTS = {"template": "/chat/completions", "plain": "/completions"}  # by RunConfig.chat_template
STORED = ROOT / "outputs" / "bench-agreement"
HEAD = ("server", "computes in", "endpoint", f"right of {N}", "ours", "same verdict", "same text", "tokens before")
Answers = dict[str, tuple[Sample, Score]]  # by problem


def servers(model: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Name, dtype, and start of each server that is there; ``model`` is the folder of the converted model."""
    if systems.location(plan.LLAMA):
        yield "llama.cpp", "Q4_1", systems.llama_cpp(str(plan.model_file()), plan.SERVED_AT_ONCE, PORT)
        if file := os.environ.get("LLAMA_FLOAT32"):
            exact = ("-ctk", "f32", "-ctv", "f32")
            yield "llama.cpp", "float32", systems.llama_cpp(file, plan.SERVED_AT_ONCE, PORT, *exact)
    if systems.location(plan.VLLM):
        yield "vLLM's CPU build", "float32", systems.vllm(model, "float32", PORT)
    if binary := os.environ.get("TRANSFORMERS_SERVE"):
        command = [binary, "serve", "--device", "cpu", "--dtype", "float32"]
        yield "transformers serve", "float32", systems.at(PORT, command, {"HF_HUB_OFFLINE": "1"})


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
    for name, dtype, start in servers(model):
        label = f"{name}-{dtype}".replace("'", "").replace(" ", "-")
        how = {"sampler": "openai", "model": model, "base_url": start["base_url"]}
        how |= {"concurrency": 16, "request_timeout": 3600}
        with running(start | {"log": STORED / f"{label}.log"}):
            for chat, endpoint in ENDPOINTS.items():
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
