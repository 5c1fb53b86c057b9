"""A report on paper: ``report.html`` as a PDF, printed by this machine's browser."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from gsm8k_nb.places import own_asset

PRINTERS = own_asset("printers.txt").splitlines()  # commands, and where macOS and Windows keep them off the PATH
PRINT_SECONDS = 120  # a report of the largest size prints in a few


class PrintError(RuntimeError):
    """The page could not be printed: the message says what to do."""


def print_pdf(page: Path) -> Path:
    """Print an HTML file to a PDF beside it, by this machine's browser. PrintError where that cannot be."""
    program = printer()
    if program is None:
        raise PrintError(
            f"a PDF needs Chromium, Chrome or Edge, and none of {', '.join(PRINTERS[:7])} is on the PATH: install one "
            f"(Debian: apt install chromium; macOS: brew install --cask chromium), or print {page} by hand"
        )
    made = page.with_suffix(".pdf").resolve()
    made.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        printing = ["--no-pdf-header-footer", f"--print-to-pdf={made}", page.resolve().as_uri()]
        command = [program, *headless(profile), *printing]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=PRINT_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PrintError(f"{program} did not print {page}: {error}") from error
    if done.returncode or not made.exists():
        raise PrintError(f"{program} did not print {page} (exit status {done.returncode}): {done.stderr[-500:]}")
    return made


def printer() -> str | None:
    """The path of a browser that prints; None where there is none."""
    return next(filter(None, map(shutil.which, PRINTERS)), None)


def headless(profile: str) -> list[str]:
    """Arguments for a browser without a window, with a profile of its own in the folder ``profile``."""
    # Chromium refuses to start as root, as in many containers, unless its sandbox is off.
    root = ["--no-sandbox"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
    return ["--headless", "--disable-gpu", "--no-first-run", f"--user-data-dir={profile}", *root]
