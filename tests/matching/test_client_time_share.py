"""Time accounts of clients: debts are paid off over time, not by reconnecting."""

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
def accounts(clock: Clock) -> ClientTimeShares:
    """Accounts with a limit of 0.2 s and a repayment of a tenth of the time."""
    return ClientTimeShares(clock, 0.2, 0.1)


def charge_number(
    accounts: ClientTimeShares, number: int, seconds: float, *, is_cheap: bool = False
) -> bool:
    """Charge a subscription's account; return whether an account could pay."""
    account = accounts.find_payer((number,), is_cheap=is_cheap)
    return account is not None and charge(accounts, account, seconds, is_cheap=is_cheap)


def charge(
    accounts: ClientTimeShares, account: ClientTimeShare, seconds: float, *, is_cheap: bool = False
) -> bool:
    """Charge an account; return whether it could pay."""
    affords = accounts.can_afford(account, seconds, is_cheap=is_cheap)
    accounts.charge(account, seconds)
    return affords


def debt_of(accounts: ClientTimeShares, number: int) -> float:
    account: ClientTimeShare = accounts._by_number[number]
    return account.owed_seconds


def test_free_time_is_granted_for_each_event(accounts: ClientTimeShares) -> None:
    accounts.add_subscription(1, "alice")
    for _ in range(100_000):
        accounts.begin_event(FREE_SECONDS, 1.0)
        assert charge_number(accounts, 1, FREE_SECONDS / 2) and charge_number(
            accounts, 1, FREE_SECONDS / 2
        )
    assert debt_of(accounts, 1) == pytest.approx(0.0, abs=1e-9)


def test_subscriptions_of_a_client_share_an_account(
    accounts: ClientTimeShares, clock: Clock
) -> None:
    for number in (1, 2):
        accounts.add_subscription(number, "alice")
    accounts.add_subscription(3, "bob")
    accounts.begin_event(FREE_SECONDS, 1.0)
    assert charge_number(accounts, 1, 0.6 + FREE_SECONDS) and charge_number(accounts, 2, 0.6)
    assert not charge_number(accounts, 1, 0.0) and not charge_number(accounts, 2, 0.0)
    assert charge_number(accounts, 3, 0.6)
    # Cheap queries may owe up to twice the limit.
    assert charge_number(accounts, 1, 0.9, is_cheap=True) and not charge_number(
        accounts, 1, 0.0, is_cheap=True
    )
    clock.now += 12.0
    accounts.begin_event(FREE_SECONDS, 1.0)
    # 0.9 of 2.1 are left: evaluation that starts in free time must end in it.
    assert debt_of(accounts, 1) == pytest.approx(2.1)
    assert charge_number(accounts, 1, 2 * FREE_SECONDS)
    assert debt_of(accounts, 1) == pytest.approx(0.9 + FREE_SECONDS)


def test_evaluation_in_free_time_must_end_in_it(accounts: ClientTimeShares) -> None:
    accounts.add_subscription(1, "alice")
    accounts.begin_event(FREE_SECONDS, 1.0)
    assert charge_number(accounts, 1, 2.0)
    accounts.begin_event(FREE_SECONDS, 1.0)
    assert charge_number(accounts, 1, FREE_SECONDS / 2)
    assert not charge_number(accounts, 1, FREE_SECONDS)


def test_larger_event_grants_more_time_and_charges_less(accounts: ClientTimeShares) -> None:
    accounts.add_subscription(1, "alice")
    accounts.begin_event(16 * FREE_SECONDS, 4.0)
    assert charge_number(accounts, 1, 16 * FREE_SECONDS + 2.0)
    assert debt_of(accounts, 1) == pytest.approx(0.5)


def test_first_account_with_time_pays(accounts: ClientTimeShares) -> None:
    for number, client in enumerate(("alice", "bob", "carol"), 1):
        accounts.add_subscription(number, client)
    accounts.begin_event(FREE_SECONDS, 1.0)
    payers = []
    for _ in range(7):
        account = accounts.find_payer((1, 2, 3), is_cheap=False)
        payers.append(None if account is None else account.client)
        if account is not None:
            accounts.charge(account, 0.75)
    assert payers == ["alice", "alice", "bob", "bob", "carol", "carol", None]


def test_account_with_credit_pays_before_one_with_free_time(accounts: ClientTimeShares) -> None:
    """Otherwise the second account would pay what the first can not."""
    accounts.add_subscription(1, "greedy")
    accounts.add_subscription(2, "modest")
    accounts.begin_event(FREE_SECONDS, 1.0)
    assert charge_number(accounts, 1, 2.0)
    accounts.begin_event(FREE_SECONDS, 1.0)
    account = accounts.find_payer((1, 2), is_cheap=False)
    assert account is not None and account.client == "modest"
    assert charge(accounts, account, 2.0)
    accounts.begin_event(FREE_SECONDS, 1.0)
    account = accounts.find_payer((1, 2), is_cheap=False)
    assert account is not None and account.client == "greedy"
    assert not charge(accounts, account, 2.0)


def test_debt_survives_closing_and_reopening(accounts: ClientTimeShares, clock: Clock) -> None:
    accounts.add_subscription(1, "alice")
    accounts.begin_event(FREE_SECONDS, 1.0)
    assert charge_number(accounts, 1, 1.5)
    accounts.remove_subscription(1)
    clock.now += 1.0
    accounts.add_subscription(2, "alice")
    accounts.begin_event(FREE_SECONDS, 1.0)
    assert charge_number(accounts, 2, 0.0)
    assert debt_of(accounts, 2) == pytest.approx(1.4 - FREE_SECONDS)
    accounts.remove_subscription(2)
    clock.now += 100.0
    accounts.add_subscription(3, "alice")
    accounts.remove_subscription(3)
    assert not accounts._by_client and not accounts._by_number


def test_debts_of_closed_accounts_are_bounded(accounts: ClientTimeShares) -> None:
    for number in range(MAX_IDLE_DEBTORS + 10):
        accounts.add_subscription(number, f"client-{number}")
        accounts.begin_event(FREE_SECONDS, 1.0)
        assert charge_number(accounts, number, 0.5)
        accounts.remove_subscription(number)
    assert len(accounts._by_client) == MAX_IDLE_DEBTORS
    accounts.add_subscription(0, "client-0")
    assert debt_of(accounts, 0) == 0.0
    accounts.add_subscription(1, f"client-{MAX_IDLE_DEBTORS + 9}")
    assert debt_of(accounts, 1) > 0.0
    for number in (0, 1):
        accounts.remove_subscription(number)
    assert len(accounts._by_client) == MAX_IDLE_DEBTORS
