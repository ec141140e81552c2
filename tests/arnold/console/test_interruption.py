"""A run that is asked to stop notices it between two instants."""

from __future__ import annotations

import signal

import pytest

from arnold.console.interrupts import asked_to_stop


def test_the_first_signal_asks_and_the_second_interrupts() -> None:
    """The SIGTERM of a batch system, like Ctrl-C: once is a question, twice an order; then all is as before."""
    before = signal.getsignal(signal.SIGTERM)
    with asked_to_stop() as asked:
        assert not asked()
        signal.raise_signal(signal.SIGTERM)
        assert asked()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before
