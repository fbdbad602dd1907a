"""Bounds of the subscriptions of clients and accounts."""

from __future__ import annotations

from collections import Counter
from typing import Final

import attrs

from broker.config.limits import LimitSettings
from broker.delivery.output import Output
from broker.delivery.session_delivery import SessionDelivery
from broker.errors import BadPosition, TooManySubscriptions
from broker.event.place import Position
from broker.identity import Identity
from broker.limit_registry import LimitRegistry
from broker.subscriptions.durable_subscriptions import DurableSubscriptions
from broker.subscriptions.profile import Profile
from broker.wire.messages import Subscribe

#: Origins and flows in one position, and in those of one client. Each takes some 300 bytes.
MAX_POSITION_MARKS: Final = 8_192
MAX_CLIENT_MARKS: Final = 50_000
#: Positions with fewer are accepted beyond `MAX_CLIENT_MARKS`.
SMALL_POSITION: Final = 50


@attrs.frozen
class SubscriptionBounds:
    """From `[limits]`; those of accounts are 0 for no limit."""

    of_client: int
    of_account: int = 0
    durables_of_account: int = 0

    @classmethod
    def from_settings(cls, settings: LimitSettings) -> SubscriptionBounds:
        return cls(
            settings.max_subscriptions_per_client,
            settings.max_subscriptions_per_account,
            settings.max_durables_per_account,
        )


class SubscriptionLimits:
    """Checks of new subscriptions. Without accounts only the bounds of clients hold."""

    def __init__(
        self,
        settings: LimitSettings,
        durables: DurableSubscriptions,
        output: Output,
        registry: LimitRegistry,
    ) -> None:
        self.bounds = SubscriptionBounds.from_settings(settings)
        """May be replaced at any time; present subscriptions stay."""
        self._durables = durables
        self._of_account: Counter[str] = Counter()
        self._client = registry.add(
            "client-subscriptions",
            per="client",
            setting="limits.max_subscriptions_per_client",
            bound=lambda: self.bounds.of_client,
            used=lambda: max((len(each.feeds) for each in output.session_deliveries), default=0),
        )
        self._client_durables = registry.add(
            "client-durable-subscriptions",
            per="client",
            setting="limits.max_subscriptions_per_client",
            bound=lambda: self.bounds.of_client,
            used=durables.count_of_busiest_client,
        )
        self._account = registry.add(
            "account-subscriptions",
            per="account",
            setting="limits.max_subscriptions_per_account",
            bound=lambda: self.bounds.of_account,
            used=lambda: max(self._of_account.values(), default=0),
        )
        self._account_durables = registry.add(
            "account-durable-subscriptions",
            per="account",
            setting="limits.max_durables_per_account",
            bound=lambda: self.bounds.durables_of_account,
            # Accounts may share client ids: this is the upper bound of one account's.
            used=lambda: len(durables),
        )
        self._marks = registry.add(
            "client-position-marks",
            per="client",
            bound=lambda: MAX_CLIENT_MARKS,
            used=lambda: max(map(_count_marks, output.session_deliveries), default=0),
        )

    def check_subscription(self, profile: Profile) -> None:
        """Raises `TooManySubscriptions` if the client or its account may not have one more."""
        account, bounds = profile.identity.account, self.bounds
        if len(profile.delivery.feeds) >= bounds.of_client:
            self._client.count_reached()
            raise TooManySubscriptions(
                f"{bounds.of_client} subscriptions are the limit of a client"
            )
        if account and bounds.of_account and self._of_account[account] >= bounds.of_account:
            self._account.count_reached()
            raise TooManySubscriptions(
                f"{bounds.of_account} subscriptions are the limit of account {account}"
            )

    def check_durable(self, identity: Identity) -> None:
        """Raises `TooManySubscriptions` if the client or its account may not store one more."""
        bounds = self.bounds
        if self._durables.count_of_client(identity.client_id) >= bounds.of_client:
            self._client_durables.count_reached()
            raise TooManySubscriptions(
                f"{bounds.of_client} durable subscriptions are the limit of a client"
            )
        most = bounds.durables_of_account
        # Client ids are only compared if the account can be at its limit.
        if (
            identity.account
            and 0 < most <= len(self._durables)
            and self._durables.count_of_clients(identity.owns_client_id) >= most
        ):
            self._account_durables.count_reached()
            raise TooManySubscriptions(
                f"{most} durable subscriptions are the limit of account {identity.account}"
            )

    def check_positions(self, profile: Profile, request: Subscribe) -> None:
        """Raises `BadPosition` if the positions of the client name too many origins."""
        marks = len(request.position) + len(request.until)
        self._check_marks(marks, marks + _count_marks(profile.delivery))

    def check_acknowledged(self, client_id: str, name: str, position: Position) -> None:
        """Raises `BadPosition` if the stored positions of the client would name too many origins.

        Otherwise each acknowledgement could add others.
        """
        durable = self._durables.get(client_id, name)
        stored = {} if durable is None else durable.position.marks
        added = len(position.marks.keys() - stored.keys())
        if added and len(stored) + added > SMALL_POSITION:
            durables = self._durables.of_client(client_id).values()
            total = added + sum(len(each.position.marks) for each in durables)
            self._check_marks(len(stored) + added, total)

    def _check_marks(self, marks: int, total: int) -> None:
        if marks > MAX_POSITION_MARKS or (marks > SMALL_POSITION and total > MAX_CLIENT_MARKS):
            self._marks.count_reached()
            raise BadPosition(
                f"a position has at most {MAX_POSITION_MARKS} marks, and those of a client have "
                f"{MAX_CLIENT_MARKS}"
            )

    def count_added(self, identity: Identity) -> None:
        self._of_account[identity.account] += 1

    def count_removed(self, identity: Identity, subscriptions: int = 1) -> None:
        self._of_account[identity.account] -= subscriptions
        if self._of_account[identity.account] <= 0:
            del self._of_account[identity.account]


def _count_marks(delivery: SessionDelivery) -> int:
    return sum(len(feed.reported_marks) for feed in delivery.feeds)
