"""The share of the node's time for the queries of an account (checklist F13).

Below, a client is the holder of a share: an account with all its sessions, on a node without
accounts a ClientId, or a part of the interest of another node. A client has a little free time per
event. Longer evaluations become a debt, which decreases as time passes. All evaluations on an event
have the time limit of one query together, since the node stops meanwhile.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

import attrs

#: Seconds for the queries of one client on one event.
FREE_SECONDS: Final = 0.0005
#: The same for events that are matched without an index, though it would decide most queries. It
#: suffices for a thousand of them.
FREE_SECONDS_WITHOUT_INDEX: Final = 0.02
#: Maximum number of stored debts of clients without subscriptions, which may return.
MAX_IDLE_DEBTORS: Final = 4_096
#: Maximum debt of a client, in units of the time limit of one query.
_DEBT_FACTOR: Final = 5.0
#: Cheap queries may run up to a debt higher by this factor, and longer on one event.
_CHEAP_DEBT_FACTOR: Final = 2.0


@attrs.define(eq=False)
class ClientTimeShare:
    client: str
    settled_at: float
    owed_seconds: float = 0.0
    """Unpaid seconds beyond the free time, as of `settled_at`."""
    owed_before: float = 0.0
    """The same before the event."""
    subscriptions: int = 0
    event: int = 0
    """The number of the event that `free_seconds` and `owed_before` belong to."""
    free_seconds: float = 0.0
    bound_seconds: float = 0.0
    """For worst cases on the event. They are no debt: each is computed once for a size."""


class ClientTimeShares:
    """Shares by client and by subscription. A debt decreases by `share` seconds per second."""

    def __init__(self, clock: Callable[[], float], max_run_time: float, share: float) -> None:
        self._max_debt_seconds = max_run_time * _DEBT_FACTOR
        self._max_event_seconds = max_run_time
        self._clock = clock
        self._share = share
        self._by_client: dict[str, ClientTimeShare] = {}
        self._by_number: dict[int, ClientTimeShare] = {}
        self._idle_debtors: OrderedDict[str, None] = OrderedDict()
        self._event = 0
        self._now = clock()
        self._free_seconds = FREE_SECONDS

    def add_subscription(self, subscription: int, client: str) -> None:
        share = self._by_client.get(client)
        if share is None:
            share = self._by_client[client] = ClientTimeShare(client, self._clock())
        if not share.subscriptions:
            self._idle_debtors.pop(client, None)
        share.subscriptions += 1
        self._by_number[subscription] = share

    def remove_subscription(self, subscription: int) -> None:
        """Remove a subscription. Its client's debt remains."""
        share = self._by_number.pop(subscription)
        share.subscriptions -= 1
        if share.subscriptions:
            return
        self._settle(share, self._clock())
        if not share.owed_seconds:
            del self._by_client[share.client]
            return
        self._idle_debtors[share.client] = None
        if len(self._idle_debtors) > MAX_IDLE_DEBTORS:
            oldest, _ = self._idle_debtors.popitem(last=False)
            del self._by_client[oldest]

    def begin_event(self, free_seconds: float) -> None:
        """Start the next event."""
        self._event += 1
        self._now = self._clock()
        self._free_seconds = free_seconds

    def find_payer(self, subscriptions: Iterable[int], *, is_cheap: bool) -> ClientTimeShare | None:
        """Return the share that pays for an evaluation: the first with a debt below the limit.

        If all debts are too high, return one with free time left, or None.
        """
        with_free_time: ClientTimeShare | None = None
        for subscription in subscriptions:
            share = self._find_share(subscription)
            if share.owed_seconds < self._max_debt(share, is_cheap):
                return share
            if with_free_time is None and share.free_seconds > 0:
                with_free_time = share
        return with_free_time

    def find_bounded(self, subscriptions: Iterable[int]) -> ClientTimeShare | None:
        """Return the first share with time for worst cases left on this event, or None."""
        limit = self._max_event_seconds * _CHEAP_DEBT_FACTOR
        for subscription in subscriptions:
            share = self._find_share(subscription)
            if share.bound_seconds < limit:
                return share
        return None

    def can_afford(self, share: ClientTimeShare, seconds: float, *, is_cheap: bool) -> bool:
        """Return True if the evaluation was free, or the client's debt is below its limit."""
        return seconds <= share.free_seconds or share.owed_seconds < self._max_debt(share, is_cheap)

    def seconds_left(self, share: ClientTimeShare, *, is_cheap: bool) -> float:
        """Return the time for an evaluation that reaches the limit of the client's debt."""
        return share.free_seconds + max(0.0, self._max_debt(share, is_cheap) - share.owed_seconds)

    def charge(self, share: ClientTimeShare, seconds: float) -> None:
        share.free_seconds -= seconds
        if share.free_seconds < 0:
            share.owed_seconds -= share.free_seconds
            share.free_seconds = 0.0

    def _max_debt(self, share: ClientTimeShare, is_cheap: bool) -> float:
        factor = _CHEAP_DEBT_FACTOR if is_cheap else 1.0
        on_event = self._max_event_seconds * factor - self._free_seconds
        return min(self._max_debt_seconds * factor, share.owed_before + on_event)

    def _find_share(self, subscription: int) -> ClientTimeShare:
        share = self._by_number[subscription]
        if share.event != self._event:
            self._settle(share, self._now)
            share.event, share.free_seconds = self._event, self._free_seconds
            share.owed_before, share.bound_seconds = share.owed_seconds, 0.0
        return share

    def _settle(self, share: ClientTimeShare, now: float) -> None:
        share.owed_seconds = max(0.0, share.owed_seconds - (now - share.settled_at) * self._share)
        share.settled_at = now
