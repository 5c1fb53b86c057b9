"""The rule ``math_verify`` in a process of its own, so that an expression that never ends costs ten seconds, once.

    ask("so \\\\boxed{9 \\\\times 2}", "18")  ->  ("18", True)

Run as a script, this file is that process: a line of JSON in, ``[text, gold]``, and one out, ``[number, right]`` or
``{"error": "ValueError: ..."}``. A power tower is worked out below Python, where no exception can stop it; the alarm
that is set for each request ends the process itself.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

SECONDS = 10  # for one completion; Math-Verify itself allows 5 for reading and 5 for each comparison
MEMORY = 4 << 30  # bytes of address space

_lock = threading.Lock()
_child: subprocess.Popen[str] | None = None
_owner = 0  # the process that started it: a fork must not share its pipes


def ask(text: str, gold: str | None = None) -> tuple[str, bool]:
    """The number that Math-Verify reads from ``text``, or "", and whether it holds that equal to ``gold``.

    TimeoutError after ``SECONDS``; RuntimeError where Math-Verify or its process failed on this text.
    """
    if find_spec("math_verify") is None:
        raise ModuleNotFoundError("math_verify needs the math-verify package: pip install 'gsm8k-nb[math-verify]'")
    with _lock:
        child = _running()
        line = ""
        try:
            with suppress(BrokenPipeError):
                print(json.dumps([text, gold]), file=child.stdin, flush=True)
                line = child.stdout.readline() if child.stdout else ""
        finally:
            if not line:  # it ended, or this process was interrupted while it waited
                _stop()
    if not line and child.returncode == -getattr(signal, "SIGALRM", 0):
        raise TimeoutError(f"Math-Verify took longer than {SECONDS} s")
    reply = json.loads(line or f'{{"error": "Math-Verify ended with code {child.returncode}"}}')
    if isinstance(reply, dict):
        raise RuntimeError(reply["error"])
    return reply[0], reply[1]


def _running() -> subprocess.Popen[str]:
    """The process, started where it is not running. In a session of its own: no interrupt of a notebook ends it."""
    global _child, _owner
    if _child is None or _owner != os.getpid() or _child.poll() is not None:
        _child = subprocess.Popen(
            [sys.executable, "-P", __file__, str(SECONDS)], text=True, start_new_session=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        _owner = os.getpid()
    return _child


@atexit.register
def _stop() -> None:
    global _child
    if _child is not None and _owner == os.getpid():
        _child.kill()
        with suppress(BrokenPipeError):
            _child.communicate()
    _child = None


def _serve(seconds: int) -> None:
    """What the process does."""
    import math_verify

    with suppress(ImportError, ValueError, OSError):  # not on every system
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    alarm = getattr(signal, "alarm", lambda seconds: None)
    for line in sys.stdin:
        alarm(seconds)
        try:
            reply: Any = _answer(math_verify, *json.loads(line))
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {str(error)[:200]}"}
        print(json.dumps(reply), flush=True)
        alarm(0)


def _answer(math_verify: Any, text: str, gold: str | None) -> tuple[str, bool]:
    parsed = math_verify.parse(text, parsing_timeout=None)
    golds = math_verify.parse(gold, parsing_timeout=None) if gold is not None else []
    right = math_verify.verify(golds, parsed, timeout_seconds=None)
    numbers = [part for part in parsed if getattr(part, "is_number", False) and part.is_extended_real]
    digits = str(numbers[0].evalf(28)) if numbers else ""
    return digits.rstrip("0").rstrip(".") if "." in digits and "e" not in digits else digits, bool(right)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
