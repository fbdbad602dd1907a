"""What clients owe: it is worked off as time goes by, and not by going away."""

from __future__ import annotations

import pytest

from broker.matching.accounts import FREE, MAX_GONE, Account, Accounts


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def accounts(clock: Clock) -> Accounts:
    """A client may owe a second, and works a tenth of the time off."""
    return Accounts(clock, 0.2, 0.1)


def take(accounts: Accounts, number: int, seconds: float, *, is_cheap: bool = False) -> bool:
    """Whether there was somebody to pay for it, and he could."""
    account = accounts.payer((number,), is_cheap=is_cheap)
    return account is not None and pay(accounts, account, seconds, is_cheap=is_cheap)


def pay(accounts: Accounts, account: Account, seconds: float, *, is_cheap: bool = False) -> bool:
    """Whether he could."""
    could = accounts.affords(account, seconds, is_cheap=is_cheap)
    accounts.charge(account, seconds)
    return could


def owed(accounts: Accounts, number: int) -> float:
    account: Account = accounts._by_number[number]
    return account.owed


def test_what_is_free_is_free_for_each_event(accounts: Accounts) -> None:
    accounts.open(1, "alice")
    for _ in range(100_000):
        accounts.begin(FREE, 1.0)
        assert take(accounts, 1, FREE / 2) and take(accounts, 1, FREE / 2)
    assert owed(accounts, 1) == pytest.approx(0.0, abs=1e-9)


def test_all_subscriptions_of_a_client_have_one_account(accounts: Accounts, clock: Clock) -> None:
    for number in (1, 2):
        accounts.open(number, "alice")
    accounts.open(3, "bob")
    accounts.begin(FREE, 1.0)
    assert take(accounts, 1, 0.6 + FREE) and take(accounts, 2, 0.6)
    assert not take(accounts, 1, 0.0) and not take(accounts, 2, 0.0)
    assert take(accounts, 3, 0.6)
    # What is cheap may go on until it is twice as much.
    assert take(accounts, 1, 0.9, is_cheap=True) and not take(accounts, 1, 0.0, is_cheap=True)
    clock.now += 12.0
    accounts.begin(FREE, 1.0)
    # Of 2.1 are 0.9 left: what is begun in free time has to be done in free time.
    assert owed(accounts, 1) == pytest.approx(2.1)
    assert take(accounts, 1, 2 * FREE)
    assert owed(accounts, 1) == pytest.approx(0.9 + FREE)


def test_what_is_begun_in_free_time_must_not_take_longer(accounts: Accounts) -> None:
    accounts.open(1, "alice")
    accounts.begin(FREE, 1.0)
    assert take(accounts, 1, 2.0)
    accounts.begin(FREE, 1.0)
    assert take(accounts, 1, FREE / 2)
    assert not take(accounts, 1, FREE)


def test_a_larger_event_gives_more_and_takes_less(accounts: Accounts) -> None:
    accounts.open(1, "alice")
    accounts.begin(16 * FREE, 4.0)
    assert take(accounts, 1, 16 * FREE + 2.0)
    assert owed(accounts, 1) == pytest.approx(0.5)


def test_the_first_who_has_time_pays(accounts: Accounts) -> None:
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


def test_who_may_owe_it_comes_before_who_has_something_free(accounts: Accounts) -> None:
    """Or what the one can not pay would be taken from the other, who could."""
    accounts.open(1, "greedy")
    accounts.open(2, "modest")
    accounts.begin(FREE, 1.0)
    assert take(accounts, 1, 2.0)
    accounts.begin(FREE, 1.0)
    account = accounts.payer((1, 2), is_cheap=False)
    assert account is not None and account.client == "modest"
    assert pay(accounts, account, 2.0)
    accounts.begin(FREE, 1.0)
    account = accounts.payer((1, 2), is_cheap=False)
    assert account is not None and account.client == "greedy"
    assert not pay(accounts, account, 2.0)


def test_who_goes_and_comes_back_owes_what_was_owed(accounts: Accounts, clock: Clock) -> None:
    accounts.open(1, "alice")
    accounts.begin(FREE, 1.0)
    assert take(accounts, 1, 1.5)
    accounts.close(1)
    clock.now += 1.0
    accounts.open(2, "alice")
    accounts.begin(FREE, 1.0)
    assert take(accounts, 2, 0.0)
    assert owed(accounts, 2) == pytest.approx(1.4 - FREE)
    accounts.close(2)
    clock.now += 100.0
    accounts.open(3, "alice")
    accounts.close(3)
    assert not accounts._by_client and not accounts._by_number


def test_the_debts_of_those_who_are_gone_are_bounded(accounts: Accounts) -> None:
    for number in range(MAX_GONE + 10):
        accounts.open(number, f"client-{number}")
        accounts.begin(FREE, 1.0)
        assert take(accounts, number, 0.5)
        accounts.close(number)
    assert len(accounts._by_client) == MAX_GONE
    accounts.open(0, "client-0")
    assert owed(accounts, 0) == 0.0
    accounts.open(1, f"client-{MAX_GONE + 9}")
    assert owed(accounts, 1) > 0.0
    for number in (0, 1):
        accounts.close(number)
    assert len(accounts._by_client) == MAX_GONE
