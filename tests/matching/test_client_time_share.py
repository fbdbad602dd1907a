"""Time shares of clients: debts are paid off over time, not by reconnecting."""

from __future__ import annotations

import pytest

from broker.matching.client_time_share import (
    FREE_SECONDS,
    MAX_IDLE_DEBTORS,
    ClientTimeShare,
    ClientTimeShares,
)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def shares(clock: Clock) -> ClientTimeShares:
    """Time shares with a limit of 0.2 s, so debts of 1 s, and a repayment of a tenth of the
    time."""
    return ClientTimeShares(clock, 0.2, 0.1)


def charge_number(
    shares: ClientTimeShares, number: int, seconds: float, *, is_cheap: bool = False
) -> bool:
    """Charge a subscription's share; return whether a share could pay."""
    share = shares.find_payer((number,), is_cheap=is_cheap)
    return share is not None and charge(shares, share, seconds, is_cheap=is_cheap)


def charge(
    shares: ClientTimeShares, share: ClientTimeShare, seconds: float, *, is_cheap: bool = False
) -> bool:
    """Charge a share; return whether it could pay."""
    affords = shares.can_afford(share, seconds, is_cheap=is_cheap)
    shares.charge(share, seconds)
    return affords


def debt_of(shares: ClientTimeShares, number: int) -> float:
    share: ClientTimeShare = shares._by_number[number]
    return share.owed_seconds


def test_free_time_is_granted_for_each_event(shares: ClientTimeShares) -> None:
    shares.add_subscription(1, "alice")
    for _ in range(100_000):
        shares.begin_event(FREE_SECONDS)
        assert charge_number(shares, 1, FREE_SECONDS / 2) and charge_number(
            shares, 1, FREE_SECONDS / 2
        )
    assert debt_of(shares, 1) == pytest.approx(0.0, abs=1e-9)


def test_subscriptions_of_a_client_share_an_account(shares: ClientTimeShares, clock: Clock) -> None:
    for number in (1, 2):
        shares.add_subscription(number, "alice")
    shares.add_subscription(3, "bob")
    for number in (1, 2, 1, 2):
        shares.begin_event(FREE_SECONDS)
        assert charge_number(shares, number, 0.3 + FREE_SECONDS)
    shares.begin_event(0.0)
    assert not charge_number(shares, 1, 0.0) and not charge_number(shares, 2, 0.0)
    assert charge_number(shares, 3, 0.6)
    # Cheap queries may owe up to twice the limit.
    assert charge_number(shares, 1, 0.9, is_cheap=True) and not charge_number(
        shares, 1, 0.0, is_cheap=True
    )
    clock.now += 12.0
    shares.begin_event(FREE_SECONDS)
    # 0.9 of 2.1 are left: evaluation that starts in free time must end in it.
    assert debt_of(shares, 1) == pytest.approx(2.1)
    assert charge_number(shares, 1, 2 * FREE_SECONDS)
    assert debt_of(shares, 1) == pytest.approx(0.9 + FREE_SECONDS)


def test_a_client_has_the_time_of_one_query_on_an_event(shares: ClientTimeShares) -> None:
    """The node stops meanwhile. Free time is a part of it."""
    shares.add_subscription(1, "alice")
    for event in range(3):
        shares.begin_event(0.05)
        share = shares.find_payer((1,), is_cheap=False)
        assert share is not None
        assert shares.seconds_left(share, is_cheap=False) == pytest.approx(0.2)
        assert charge(shares, share, 0.15)
        assert shares.seconds_left(share, is_cheap=False) == pytest.approx(0.05)
        assert charge(shares, share, 0.06)
        assert shares.find_payer((1,), is_cheap=False) is None
        # Cheap queries have twice the time.
        assert shares.find_payer((1,), is_cheap=True) is share
        assert shares.seconds_left(share, is_cheap=True) == pytest.approx(0.19)
        assert debt_of(shares, 1) == pytest.approx(0.16 * (event + 1))


def test_the_limit_of_the_debt_also_ends_the_time_on_an_event(shares: ClientTimeShares) -> None:
    shares.add_subscription(1, "alice")
    shares.begin_event(0.0)
    assert charge_number(shares, 1, 0.9)
    shares.begin_event(0.01)
    share = shares.find_payer((1,), is_cheap=False)
    assert share is not None
    assert shares.seconds_left(share, is_cheap=False) == pytest.approx(0.11)


def test_evaluation_in_free_time_must_end_in_it(shares: ClientTimeShares) -> None:
    shares.add_subscription(1, "alice")
    shares.begin_event(FREE_SECONDS)
    assert charge_number(shares, 1, 2.0)
    shares.begin_event(FREE_SECONDS)
    assert charge_number(shares, 1, FREE_SECONDS / 2)
    assert not charge_number(shares, 1, FREE_SECONDS)


def test_first_account_with_time_pays(shares: ClientTimeShares) -> None:
    for number, client in enumerate(("alice", "bob", "carol"), 1):
        shares.add_subscription(number, client)
    shares.begin_event(FREE_SECONDS)
    payers = []
    for _ in range(7):
        share = shares.find_payer((1, 2, 3), is_cheap=False)
        payers.append(None if share is None else share.client)
        if share is not None:
            shares.charge(share, 0.15)
    assert payers == ["alice", "alice", "bob", "bob", "carol", "carol", None]


def test_account_with_credit_pays_before_one_with_free_time(shares: ClientTimeShares) -> None:
    """Otherwise the second share would pay what the first can not."""
    shares.add_subscription(1, "greedy")
    shares.add_subscription(2, "modest")
    shares.begin_event(FREE_SECONDS)
    assert charge_number(shares, 1, 2.0)
    shares.begin_event(FREE_SECONDS)
    share = shares.find_payer((1, 2), is_cheap=False)
    assert share is not None and share.client == "modest"
    assert charge(shares, share, 2.0)
    shares.begin_event(FREE_SECONDS)
    share = shares.find_payer((1, 2), is_cheap=False)
    assert share is not None and share.client == "greedy"
    assert not charge(shares, share, 2.0)


def test_debt_survives_closing_and_reopening(shares: ClientTimeShares, clock: Clock) -> None:
    shares.add_subscription(1, "alice")
    shares.begin_event(FREE_SECONDS)
    assert charge_number(shares, 1, 1.5)
    shares.remove_subscription(1)
    clock.now += 1.0
    shares.add_subscription(2, "alice")
    shares.begin_event(FREE_SECONDS)
    assert charge_number(shares, 2, 0.0)
    assert debt_of(shares, 2) == pytest.approx(1.4 - FREE_SECONDS)
    shares.remove_subscription(2)
    clock.now += 100.0
    shares.add_subscription(3, "alice")
    shares.remove_subscription(3)
    assert not shares._by_client and not shares._by_number


def test_debts_of_closed_accounts_are_bounded(shares: ClientTimeShares) -> None:
    for number in range(MAX_IDLE_DEBTORS + 10):
        shares.add_subscription(number, f"client-{number}")
        shares.begin_event(FREE_SECONDS)
        assert charge_number(shares, number, 0.5)
        shares.remove_subscription(number)
    assert len(shares._by_client) == MAX_IDLE_DEBTORS
    shares.add_subscription(0, "client-0")
    assert debt_of(shares, 0) == 0.0
    shares.add_subscription(1, f"client-{MAX_IDLE_DEBTORS + 9}")
    assert debt_of(shares, 1) > 0.0
    for number in (0, 1):
        shares.remove_subscription(number)
    assert len(shares._by_client) == MAX_IDLE_DEBTORS
