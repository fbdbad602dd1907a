"""Bounds of the subscriptions of clients and accounts."""

from __future__ import annotations

from collections import Counter

import attrs

from broker.config.limits import LimitSettings
from broker.delivery.output import Output
from broker.errors import TooManySubscriptions
from broker.identity import Identity
from broker.limit_registry import LimitRegistry
from broker.subscriptions.durable_subscriptions import DurableSubscriptions
from broker.subscriptions.profile import Profile


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

    def count_added(self, identity: Identity) -> None:
        self._of_account[identity.account] += 1

    def count_removed(self, identity: Identity, subscriptions: int = 1) -> None:
        self._of_account[identity.account] -= subscriptions
        if self._of_account[identity.account] <= 0:
            del self._of_account[identity.account]
