"""Ctrl-C and SIGTERM end a run in order: never in the middle of a row, and as the same exception.

>>> with interruptible() as safe:
...     for batch in batches:        # an interrupt here raises KeyboardInterrupt
...         with safe():             # one that comes in here waits until the row is on disk
...             run.append(batch)
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

SIGNALS = (signal.SIGINT, signal.SIGTERM)  # SIGTERM: a cluster's scheduler, or `kill`


@contextmanager
def interruptible() -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Within it, both signals raise KeyboardInterrupt; within ``safe()`` they do so at its end.

    Outside the main thread Python gives no say over signals, and nothing is changed.
    """
    held = waiting = False

    def arrived(number: int, frame: object) -> None:
        nonlocal waiting
        waiting = True
        if not held:
            raise KeyboardInterrupt

    @contextmanager
    def safe() -> Iterator[None]:
        nonlocal held
        held = True
        try:
            yield
        finally:
            held = False
        if waiting:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield safe
        return
    before = {number: signal.signal(number, arrived) for number in SIGNALS}
    try:
        yield safe
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
