"""Interest of this node's subscriptions, announced to the network."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from broker.cluster.driver import ClusterDriver
from broker.cluster.local_interest import ActiveCallback
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.matching.query.query import Query
from broker.streams.queue_policy import BLOCK, IQueuePolicy


class InterestAnnouncer:
    """Implements `broker.subscriptions.interest.SubscriptionQuery`."""

    def __init__(self, driver: ClusterDriver) -> None:
        self._driver = driver

    def is_announced(self, key: Hashable, pattern: StreamPattern, query: Query) -> bool:
        return self._driver.local_interest.has_same(key, pattern, query)

    def announce(
        self,
        key: Hashable,
        pattern: StreamPattern,
        query: Query,
        on_active: ActiveCallback,
        position: Mapping[str, Mark] | None = None,
    ) -> None:
        """Without a cluster the interest is active at once."""
        driver = self._driver
        driver.remote_interest.remove_for_absent(key)
        if driver.local_interest.has_same(key, pattern, query):
            if position is not None:
                driver.resume_from(key, position)
            driver.local_interest.replace_callback(key, on_active)
            return
        driver.local_interest.add(key, pattern, query, on_active)
        if position is not None:
            driver.resume_from(key, position)
        if driver.state is None:
            driver.local_interest.activate_without_cluster(key, {})
            return
        driver.call(driver.state.announce_interest, key, pattern, query)

    def set_queue_policy(self, key: Hashable, policy: IQueuePolicy) -> None:
        driver = self._driver
        if driver.local_interest.set_policy(key, policy) and driver.state is not None:
            driver.call(driver.state.set_interest_policy, key, policy)

    def mark_absent(self, key: Hashable) -> None:
        """Keep the key's interest matched while its client is absent."""
        # The log feeds an absent subscription later.
        self.set_queue_policy(key, BLOCK)
        local = self._driver.local_interest
        if key in local:
            self._driver.remote_interest.install_for_absent(key, local[key])

    def withdraw(self, key: Hashable) -> None:
        driver = self._driver
        driver.remote_interest.remove_for_absent(key)
        if driver.local_interest.remove(key) and driver.state is not None:
            driver.call(driver.state.withdraw_interest, key)
            driver.open_if_active()

    def set_resume_position(self, key: Hashable, position: Mapping[str, Mark]) -> None:
        if key in self._driver.local_interest:
            self._driver.resume_from(key, position)
