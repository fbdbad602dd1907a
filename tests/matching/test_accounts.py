"""Time accounts of clients: debts are paid off over time, not by reconnecting."""

from __future__ import annotations

import pytest

from broker.matching.client_time_share import FREE, MAX_GONE, Account, Accounts


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def accounts(clock: Clock) -> Accounts:
    """Accounts with a limit of 0.2 s and a repayment of a tenth of the time."""
    return Accounts(clock, 0.2, 0.1)


def charge_number(
    accounts: Accounts, number: int, seconds: float, *, is_cheap: bool = False
) -> bool:
    """Charge a subscription's account; return whether an account could pay."""
    account = accounts.payer((number,), is_cheap=is_cheap)
    return account is not None and charge(accounts, account, seconds, is_cheap=is_cheap)


def charge(accounts: Accounts, account: Account, seconds: float, *, is_cheap: bool = False) -> bool:
    """Charge an account; return whether it could pay."""
    affords = accounts.affords(account, seconds, is_cheap=is_cheap)
    accounts.charge(account, seconds)
    return affords


def debt_of(accounts: Accounts, number: int) -> float:
    account: Account = accounts._by_number[number]
    return account.owed


def test_free_time_is_granted_for_each_event(accounts: Accounts) -> None:
    accounts.open(1, "alice")
    for _ in range(100_000):
        accounts.begin(FREE, 1.0)
        assert charge_number(accounts, 1, FREE / 2) and charge_number(accounts, 1, FREE / 2)
    assert debt_of(accounts, 1) == pytest.approx(0.0, abs=1e-9)


def test_subscriptions_of_a_client_share_an_account(accounts: Accounts, clock: Clock) -> None:
    for number in (1, 2):
        accounts.open(number, "alice")
    accounts.open(3, "bob")
    accounts.begin(FREE, 1.0)
    assert charge_number(accounts, 1, 0.6 + FREE) and charge_number(accounts, 2, 0.6)
    assert not charge_number(accounts, 1, 0.0) and not charge_number(accounts, 2, 0.0)
    assert charge_number(accounts, 3, 0.6)
    # Cheap queries may owe up to twice the limit.
    assert charge_number(accounts, 1, 0.9, is_cheap=True) and not charge_number(
        accounts, 1, 0.0, is_cheap=True
    )
    clock.now += 12.0
    accounts.begin(FREE, 1.0)
    # 0.9 of 2.1 are left: evaluation that starts in free time must end in it.
    assert debt_of(accounts, 1) == pytest.approx(2.1)
    assert charge_number(accounts, 1, 2 * FREE)
    assert debt_of(accounts, 1) == pytest.approx(0.9 + FREE)


def test_evaluation_in_free_time_must_end_in_it(accounts: Accounts) -> None:
    accounts.open(1, "alice")
    accounts.begin(FREE, 1.0)
    assert charge_number(accounts, 1, 2.0)
    accounts.begin(FREE, 1.0)
    assert charge_number(accounts, 1, FREE / 2)
    assert not charge_number(accounts, 1, FREE)


def test_larger_event_grants_more_time_and_charges_less(accounts: Accounts) -> None:
    accounts.open(1, "alice")
    accounts.begin(16 * FREE, 4.0)
    assert charge_number(accounts, 1, 16 * FREE + 2.0)
    assert debt_of(accounts, 1) == pytest.approx(0.5)


def test_first_account_with_time_pays(accounts: Accounts) -> None:
    for number, client in enumerate(("alice", "bob", "carol"), 1):
        accounts.open(number, client)
    accounts.begin(FREE, 1.0)
    payers = []
    for _ in range(7):
        account = accounts.payer((1, 2, 3), is_cheap=False)
        payers.append(None if account is None else account.client)
        if account is not None:
            accounts.charge(account, 0.75)
    assert payers == ["alice", "alice", "bob", "bob", "carol", "carol", None]


def test_account_with_credit_pays_before_one_with_free_time(accounts: Accounts) -> None:
    """Otherwise the second account would pay what the first can not."""
    accounts.open(1, "greedy")
    accounts.open(2, "modest")
    accounts.begin(FREE, 1.0)
    assert charge_number(accounts, 1, 2.0)
    accounts.begin(FREE, 1.0)
    account = accounts.payer((1, 2), is_cheap=False)
    assert account is not None and account.client == "modest"
    assert charge(accounts, account, 2.0)
    accounts.begin(FREE, 1.0)
    account = accounts.payer((1, 2), is_cheap=False)
    assert account is not None and account.client == "greedy"
    assert not charge(accounts, account, 2.0)


def test_debt_survives_closing_and_reopening(accounts: Accounts, clock: Clock) -> None:
    accounts.open(1, "alice")
    accounts.begin(FREE, 1.0)
    assert charge_number(accounts, 1, 1.5)
    accounts.close(1)
    clock.now += 1.0
    accounts.open(2, "alice")
    accounts.begin(FREE, 1.0)
    assert charge_number(accounts, 2, 0.0)
    assert debt_of(accounts, 2) == pytest.approx(1.4 - FREE)
    accounts.close(2)
    clock.now += 100.0
    accounts.open(3, "alice")
    accounts.close(3)
    assert not accounts._by_client and not accounts._by_number


def test_debts_of_closed_accounts_are_bounded(accounts: Accounts) -> None:
    for number in range(MAX_GONE + 10):
        accounts.open(number, f"client-{number}")
        accounts.begin(FREE, 1.0)
        assert charge_number(accounts, number, 0.5)
        accounts.close(number)
    assert len(accounts._by_client) == MAX_GONE
    accounts.open(0, "client-0")
    assert debt_of(accounts, 0) == 0.0
    accounts.open(1, f"client-{MAX_GONE + 9}")
    assert debt_of(accounts, 1) > 0.0
    for number in (0, 1):
        accounts.close(number)
    assert len(accounts._by_client) == MAX_GONE
