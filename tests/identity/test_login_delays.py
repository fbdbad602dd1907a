from __future__ import annotations

import pytest

from broker.identity import login_delays
from broker.identity.login_delays import FORGET_AFTER, MAX_DELAY, MAX_PAIRS_PER_ADDRESS, LoginDelays


def test_delays_double_up_to_a_minute_for_one_pair_only() -> None:
    delays = LoginDelays()
    waits = []
    for _ in range(12):
        delays.record_failure("a", "alice", 0.0)
        waits.append(delays.find_wait("a", "alice", 0.0))
    assert waits == [0, 0, 0, 1, 2, 4, 8, 16, 32, MAX_DELAY, MAX_DELAY, MAX_DELAY]
    assert delays.find_wait("a", "alice", MAX_DELAY - 1) == 1.0
    assert delays.find_wait("a", "alice", MAX_DELAY) == 0.0
    for address, account in (("a", "bob"), ("b", "alice")):
        assert delays.find_wait(address, account, 0.0) == 0.0
    delays.record_success("a", "alice")
    assert delays.find_wait("a", "alice", 0.0) == 0.0
    assert len(delays) == 0


def test_old_failures_are_forgotten() -> None:
    delays = LoginDelays()
    for _ in range(10):
        delays.record_failure("a", "alice", 0.0)
    delays.record_failure("b", "bob", FORGET_AFTER - 1)
    assert len(delays) == 2
    delays.record_failure("a", "alice", FORGET_AFTER)
    assert delays.find_wait("a", "alice", FORGET_AFTER) == 0.0


def test_one_address_does_not_fill_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    delays = LoginDelays()
    for _ in range(5):
        delays.record_failure("b", "bob", 0.0)
    for number in range(10 * MAX_PAIRS_PER_ADDRESS):
        delays.record_failure("a", f"name-{number}", 0.0)
    assert len(delays) == 1 + MAX_PAIRS_PER_ADDRESS + 1
    # Its further accounts are delayed together.
    assert delays.find_wait("a", "another", 0.0) == MAX_DELAY
    assert delays.find_wait("b", "bob", 0.0) == 2.0
    # A success with one of them does not free the others.
    delays.record_success("a", "another")
    assert delays.find_wait("a", "another", 0.0) == MAX_DELAY
    monkeypatch.setattr(login_delays, "MAX_PAIRS", len(delays))
    delays.record_failure("c", "carol", 1.0)
    assert delays.find_wait("b", "bob", 0.0) == 0.0
