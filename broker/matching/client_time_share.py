"""What clients have had of the node's time for their queries (checklist F13): a share for each.

Most queries are decided by an index, for next to nothing. What has to be evaluated takes time from
all clients. So there is a little time for each client on each event, and what takes longer is noted
in the client's account, which is worked off as time goes by.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

#: Seconds for the queries of each client on each event of ordinary size.
FREE_SECONDS: Final = 0.0005
#: The same where it is not the queries' doing that they are evaluated, and an index would decide
#: most of them: a thousand of them.
FREE_SECONDS_WITHOUT_INDEX: Final = 0.02
#: Clients without subscriptions whose debts are remembered: they may come back.
MAX_IDLE_DEBTORS: Final = 4_096
#: What a client may owe, against what one of its queries may take.
_DEBT_FACTOR: Final = 5.0
#: How much more what may not take long can owe than what may.
_CHEAP_DEBT_FACTOR: Final = 2.0


class ClientTimeShare:
    """One client's."""

    __slots__ = ("client", "event", "free_seconds", "owed_seconds", "settled_at", "subscriptions")

    def __init__(self, client: str, now: float) -> None:
        self.client = client
        self.subscriptions = 0
        self.owed_seconds = 0.0
        """Seconds beyond what is free that are not worked off yet, as of `since`."""
        self.settled_at = now
        self.event = 0
        """The number of the event that `free` is for."""
        self.free_seconds = 0.0


class ClientTimeShares:
    """Accounts by client, and by the subscription that an evaluation is for.

    A client may owe what five queries may take; of the time that goes by `share` is worked off.
    """

    def __init__(self, clock: Callable[[], float], max_run_time: float, share: float) -> None:
        self._credit = max_run_time * _DEBT_FACTOR
        self._clock = clock
        self._share = share
        self._by_client: dict[str, ClientTimeShare] = {}
        self._by_number: dict[int, ClientTimeShare] = {}
        self._idle_debtors: OrderedDict[str, None] = OrderedDict()
        self._event = 0
        self._now = clock()
        self._weight = 1.0
        self._free_seconds = FREE_SECONDS

    def add_subscription(self, number: int, client: str) -> None:
        """A subscription of a client."""
        account = self._by_client.get(client)
        if account is None:
            account = self._by_client[client] = ClientTimeShare(client, self._clock())
        if not account.subscriptions:
            self._idle_debtors.pop(client, None)
        account.subscriptions += 1
        self._by_number[number] = account

    def remove_subscription(self, number: int) -> None:
        """A subscription is over; what its client owes is not forgotten."""
        account = self._by_number.pop(number)
        account.subscriptions -= 1
        if account.subscriptions:
            return
        self._settle(account, self._clock())
        if not account.owed_seconds:
            del self._by_client[account.client]
            return
        self._idle_debtors[account.client] = None
        if len(self._idle_debtors) > MAX_IDLE_DEBTORS:
            oldest, _ = self._idle_debtors.popitem(last=False)
            del self._by_client[oldest]

    def begin_event(self, free: float, weight: float) -> None:
        """Another event: so many seconds are free for each client, and what takes longer weighs
        less, for the event is so much larger than an ordinary one."""
        self._event += 1
        self._now = self._clock()
        self._free_seconds = free
        self._weight = weight

    def find_payer(self, numbers: Sequence[int], *, is_cheap: bool) -> ClientTimeShare | None:
        """Whose time an evaluation for these subscriptions is: the first client's that may owe it.

        To others with the same query it is a present: they lose nothing by each other. The cheap
        queries of a client may go on for a while when others may not. Where all owe too much there
        may be one who has something free still; None if there is not.
        """
        limit = self._max_debt(is_cheap)
        last: ClientTimeShare | None = None
        for number in numbers:
            account = self._by_number[number]
            if account.event != self._event:
                self._settle(account, self._now)
                account.event, account.free_seconds = self._event, self._free_seconds
            if account.owed_seconds < limit:
                return account
            if last is None and account.free_seconds > 0:
                last = account
        return last

    def can_afford(self, account: ClientTimeShare, seconds: float, *, is_cheap: bool) -> bool:
        """Whether an evaluation on this event may take so long: what is left is free, or owed."""
        return seconds <= account.free_seconds or account.owed_seconds < self._max_debt(is_cheap)

    def charge(self, account: ClientTimeShare, seconds: float) -> None:
        """An evaluation on this event took so long."""
        account.free_seconds -= seconds
        if account.free_seconds < 0:
            account.owed_seconds -= account.free_seconds / self._weight
            account.free_seconds = 0.0

    def _max_debt(self, is_cheap: bool) -> float:
        return self._credit * _CHEAP_DEBT_FACTOR if is_cheap else self._credit

    def _settle(self, account: ClientTimeShare, now: float) -> None:
        account.owed_seconds = max(
            0.0, account.owed_seconds - (now - account.settled_at) * self._share
        )
        account.settled_at = now
