from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from benchmarks.harness.signals import deferred_signals, end_on_signals


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    end_on_signals()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_ctrl_c_interrupts_and_other_signals_exit_with_the_status_that_shells_expect() -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(SystemExit) as end:
        signal.raise_signal(signal.SIGTERM)
    assert end.value.code == 128 + signal.SIGTERM


def test_a_signal_within_an_undisturbed_block_is_heeded_at_the_end_of_the_outermost() -> None:
    reached = []
    with pytest.raises(SystemExit), deferred_signals():
        with deferred_signals():
            signal.raise_signal(signal.SIGHUP)
            reached.append("inner")
        reached.append("outer")
    assert reached == ["inner", "outer"]
    with deferred_signals():
        reached.append("nothing is left of it")
