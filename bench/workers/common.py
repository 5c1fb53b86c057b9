r"""What all workers share: read a job, time it, write what came of it. Only the standard library: peers have their own.

    python workers/ours.py JOB.json RESULT.json

Job:    {"model": folder, "dtype": "bfloat16", "prompts": ["Q: ..."], "n_samples": 1, "temperature": 0.0,
         "max_new_tokens": 128, "stop": ["\n\nQ:"], "batch_size": 64, "threads": 2, "warm_up": ["Q: ..."]}
Result: {"seconds": 16.2, "load_seconds": 2.1, "cpu_seconds": 31.9, "peak_mb": 1290.0, "texts": [["..."], ...],
         "versions": {"torch": "2.13.0"}}

``seconds`` is wall time from prompts as text to completions as text, the model being loaded; ``cpu_seconds`` is the
processor time of the same stretch: where it is far below wall time x threads, something else had the processor.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

Texts = list[list[str]]  # the completions of each prompt


def work(load: Callable[[dict], object], generate: Callable[[object, dict], Texts], packages: list[str]) -> None:
    """One measurement: ``load`` a model, then ``generate`` with it, timed apart. Peak memory is the process's own."""
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    started = time.perf_counter()
    loaded = load(job)
    load_seconds = time.perf_counter() - started
    started, cpu = time.perf_counter(), time.process_time()
    texts = generate(loaded, job)
    result = {
        "seconds": time.perf_counter() - started,
        "load_seconds": load_seconds,
        "cpu_seconds": time.process_time() - cpu,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10),
        "texts": texts,
        "versions": {name: version(name) for name in packages},
    }
    Path(sys.argv[2]).write_text(json.dumps(result), encoding="utf-8")


def by_prompt(texts: list[str], n_samples: int) -> Texts:
    """Completions in the order of their prompts, those of one prompt side by side, as a list for each prompt."""
    return [texts[start : start + n_samples] for start in range(0, len(texts), n_samples)]
