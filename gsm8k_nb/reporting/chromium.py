"""A page printed to PDF by the Chromium, Chrome or Edge that is on this machine.

print_pdf(Path("outputs/SmolLM2-.../report.html"))  ->  outputs/SmolLM2-.../report.pdf
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge", "msedge")
PLACES = (  # where macOS and Windows keep them, off the PATH
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
)
SECONDS = 120  # a report of the largest size prints in a few


class ChromiumError(RuntimeError):
    """There is no Chromium, or it did not print: the message says what to do."""


def find() -> str | None:
    """The program's path, or None where there is none."""
    found = (shutil.which(name) for name in NAMES)
    return next((path for path in found if path), next((path for path in PLACES if Path(path).exists()), None))


def options(profile: str) -> list[str]:
    """Arguments for a browser without a window, with a profile of its own in the folder ``profile``."""
    # Chromium refuses to start as root, as in many containers, unless its sandbox is off.
    root = ["--no-sandbox"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
    return ["--headless", "--disable-gpu", "--no-first-run", f"--user-data-dir={profile}", *root]


def print_pdf(page: Path) -> Path:
    """Print an HTML file to a PDF beside it. ChromiumError where that cannot be done."""
    program = find()
    if program is None:
        raise ChromiumError(
            f"a PDF needs Chromium, Chrome or Edge, and none of {', '.join(NAMES)} is on the PATH: install one "
            f"(Debian: apt install chromium; macOS: brew install --cask chromium), or print {page} by hand"
        )
    made = page.with_suffix(".pdf").resolve()
    made.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        printing = ["--no-pdf-header-footer", f"--print-to-pdf={made}", page.resolve().as_uri()]
        command = [program, *options(profile), *printing]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ChromiumError(f"{program} did not print {page}: {error}") from error
    if done.returncode or not made.exists():
        raise ChromiumError(f"{program} did not print {page} (exit status {done.returncode}): {done.stderr[-500:]}")
    return made
