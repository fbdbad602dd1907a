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
    assert delays.longest_wait(MAX_DELAY - 1) == 1.0
    for now in (MAX_DELAY, MAX_DELAY + 5):
        assert delays.find_wait("a", "alice", now) == delays.longest_wait(now) == 0.0
    for address, account in (("a", "bob"), ("b", "alice")):
        assert delays.find_wait(address, account, 0.0) == 0.0
    delays.record_success("a", "alice")
    assert delays.find_wait("a", "alice", 0.0) == 0.0
    assert len(delays) == 0 and delays.longest_wait(0.0) == 0.0


def test_a_delay_begins_with_the_last_failure() -> None:
    delays = LoginDelays()
    for now in (0.0, 10.0, 20.0, 100.0):
        delays.record_failure("a", "alice", now)
    assert delays.find_wait("a", "alice", 100.5) == 0.5


def fail(delays: LoginDelays, account: str, times: int = 5) -> None:
    for _ in range(times):
        delays.record_failure("a", account, 0.0)


def test_removed_pairs_make_room_for_others_of_their_address() -> None:
    delays = LoginDelays()
    for number in range(MAX_PAIRS_PER_ADDRESS):
        fail(delays, f"name-{number}", 1)
    delays.record_success("a", "name-0")
    fail(delays, "alice")
    # The address has its full number of pairs again: bob shares the entry of all others.
    fail(delays, "bob")
    assert delays.find_wait("a", "carol", 0.0) == 2.0
    for number in range(1, MAX_PAIRS_PER_ADDRESS):
        delays.record_success("a", f"name-{number}")
    fail(delays, "dave")
    assert delays.find_wait("a", "erin", 0.0) == 0.0
    delays.record_failure("b", "bob", FORGET_AFTER)
    assert len(delays) == 1 and delays._pairs_of_address == {"b": 1}


def test_the_pair_with_the_oldest_failure_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_delays, "MAX_PAIRS", 2)
    delays = LoginDelays()
    for address, now in (("a", 0.0), ("b", 1.0), ("a", 2.0)):
        for _ in range(4):
            delays.record_failure(address, "alice", now)
    assert len(delays) == 2
    delays.record_failure("c", "alice", 3.0)
    assert len(delays) == 2
    assert delays.find_wait("a", "alice", 3.0) > 0.0 == delays.find_wait("b", "alice", 1.0)


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
