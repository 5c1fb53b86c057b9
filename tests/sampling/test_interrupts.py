"""Signals during a run: raised at once between rows, held back while a row is written."""

import os
import signal
import threading

import pytest

from gsm8k_nb.sampling.interrupts import SIGNALS, interruptible


@pytest.mark.parametrize("number", SIGNALS)
def test_both_signals_raise_the_same_exception(number):
    with pytest.raises(KeyboardInterrupt), interruptible():
        os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_row_is_finished_first(number):
    written = []
    with pytest.raises(KeyboardInterrupt), interruptible() as safe:
        with safe():
            os.kill(os.getpid(), number)
            written.append("row")
        written.append("after")
    assert written == ["row"]


def test_handlers_are_put_back():
    before = [signal.getsignal(number) for number in SIGNALS]
    with interruptible():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_outside_the_main_thread_nothing_changes():
    seen = []

    def work() -> None:
        with interruptible() as safe, safe():
            seen.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
