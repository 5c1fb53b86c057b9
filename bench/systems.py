"""How each system is started: which interpreter or server, with which script and options.

Peers are found by environment variables that name their interpreter or binary; one not set is listed as not run:

    export LM_EVAL_PYTHON=~/peers/lm-eval/bin/python
    export VLLM=~/peers/vllm/bin/vllm
    export LLAMA_SERVER=~/peers/llama/llama-server
"""

import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench import plan
from bench.plan import Piece

WORKERS = Path(__file__).parent / "workers"
THREADS = int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)
SCRIPTS = {
    plan.OURS: "ours.py", plan.ANY_BATCH: "ours.py", plan.LM_EVAL: "lm_eval_hf.py", plan.GENERATE: "generate.py",
    plan.PREFIX: "generate.py", plan.VLLM: "server.py", plan.LLAMA: "server.py",
}  # fmt: skip
VARIABLES = {plan.LM_EVAL: "LM_EVAL_PYTHON", plan.VLLM: "VLLM", plan.LLAMA: "LLAMA_SERVER"}
NAMES = {
    plan.OURS: "gsm8k_nb", plan.ANY_BATCH: "gsm8k_nb, `repeatable: false`", plan.LM_EVAL: "lm-eval, hf backend",
    plan.GENERATE: "transformers `generate`",
    plan.PREFIX: "`generate`, prefix cache reused", plan.VLLM: "vLLM's CPU build, server",
    plan.LLAMA: "llama.cpp's server",
}  # fmt: skip
# vLLM keeps one core for itself unless told otherwise; 4 GB hold the keys and values of all requests here.
VLLM_ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "4", "VLLM_CPU_NUM_OF_RESERVED_CPU": "0", "OMP_NUM_THREADS": str(THREADS),
    "VLLM_NO_USAGE_STATS": "1",
}  # fmt: skip


CONTEXT = 2048  # tokens of a prompt and its completion that a server has room for


def location(system: str) -> str | None:
    """The interpreter or binary of a system, or None where it is not installed."""
    if system not in VARIABLES:
        return sys.executable
    return shutil.which(os.path.expanduser(os.environ.get(VARIABLES[system], "")))


def run(piece: Piece, job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run one piece in a process of its own and return the worker's result. RuntimeError with the end of its output."""
    file, result = folder / f"{piece.name}.job.json", folder / f"{piece.name}.result.json"
    job |= {"batch_size": piece.batch_size, "reuse_prefix": piece.system == plan.PREFIX, "threads": THREADS}
    job |= {"repeatable": False if piece.system == plan.ANY_BATCH else None}
    if SCRIPTS[piece.system] == "server.py":
        job |= served(piece, job, folder)
    file.write_text(json.dumps(job), encoding="utf-8")
    python = sys.executable if SCRIPTS[piece.system] == "server.py" else location(piece.system)
    command = [python, str(WORKERS / SCRIPTS[piece.system]), str(file), str(result)]
    timed(command, {"OMP_NUM_THREADS": str(THREADS)})
    found = json.loads(result.read_text(encoding="utf-8"))
    file.unlink()
    result.unlink()
    return found


def timed(command: list[str], environment: dict[str, str] | None = None, keep: bool = False) -> dict[str, Any]:
    """Run a command to its end: ``{"seconds": wall, "cpu_seconds": user + system}``, and its output where ``keep``."""
    offline = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | offline | (environment or {}))
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\nended with code {done.returncode}:\n{done.stderr[-2000:]}")
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": seconds, "cpu_seconds": cpu_seconds} | ({"output": done.stdout} if keep else {})


def served(piece: Piece, job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What ``workers/server.py`` needs besides: the server's command, where it listens, and its version."""
    if piece.system == plan.VLLM:
        found = vllm(job["model"], piece.dtype, free_port())
    else:
        found = llama_cpp(job["gguf"], piece.batch_size, free_port())
    version_of = version(found["command"][0], found["environment"])
    return found | {"log": str(folder / f"{piece.name}.log"), "versions": {piece.system: version_of}}


def vllm(model: str, dtype: str, port: int) -> dict[str, Any]:
    """The command of vLLM's server, its environment and its address."""
    command = [location(plan.VLLM), "serve", model, "--dtype", dtype, "--max-model-len", str(CONTEXT)]
    return at(port, command, VLLM_ENVIRONMENT)


def llama_cpp(gguf: str, slots: int, port: int, *options: str) -> dict[str, Any]:
    """The same of llama.cpp's server, which answers so many requests at a time."""
    binary = location(plan.LLAMA)
    command = [binary, "-m", gguf, "-t", str(THREADS), "--parallel", str(slots), "-c", str(CONTEXT * slots), *options]
    return at(port, command, {"LD_LIBRARY_PATH": str(Path(binary).parent)})


def at(port: int, command: list[str], environment: dict[str, str]) -> dict[str, Any]:
    command = [*command, "--host", "127.0.0.1", "--port", str(port)]
    return {"command": command, "environment": environment, "base_url": f"http://127.0.0.1:{port}/v1"}


def version(binary: str, environment: dict[str, str]) -> str:
    """The first line with a digit that ``--version`` prints, on either stream."""
    done = subprocess.run([binary, "--version"], capture_output=True, text=True, env=os.environ | environment)
    lines = (done.stdout + done.stderr).splitlines()
    return next((line.strip().removeprefix("version: ") for line in lines if re.search(r"\d\.\d", line)), "unknown")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
