"""Interest of this node's subscriptions, announced to the network."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import partial

from twisted.internet.defer import Deferred

from broker.cluster.driver import ClusterDriver
from broker.cluster.local_interest import ActiveCallback, LocalEntry
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.matching.query.query import Query
from broker.streams.queue_policy import BLOCK, IQueuePolicy


class InterestAnnouncer:
    """Implements `broker.streams.interest.NetworkInterest`."""

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

    def announce_here(
        self,
        key: Hashable,
        pattern: StreamPattern,
        query: Query,
        on_active: ActiveCallback,
        position: Mapping[str, Mark] | None,
        active: Deferred[Mapping[str, Mark]],
    ) -> None:
        """Add interest that a transport alone announces, under an unused key.

        `active` fires when it is in force there, with the marks behind which its events come.
        """
        driver = self._driver
        driver.remote_interest.remove_for_absent(key)
        entry = driver.local_interest.add(key, pattern, query, on_active, is_announced=False)
        if position is not None:
            driver.resume_from(key, position)
        active.addCallback(partial(self._activate_here, key, entry))

    def _activate_here(self, key: Hashable, entry: LocalEntry, marks: Mapping[str, Mark]) -> None:
        driver = self._driver
        if not driver.local_interest.is_waiting(key, entry):
            # Another subscription has the key by now, or it is announced to the network.
            return
        if driver.traffic is None:
            driver.local_interest.activate_without_cluster(key, marks)
        else:
            driver.activate_interest(key, marks)

    def announce_all(self, patterns: Iterable[StreamPattern]) -> None:
        """Announce interest in streams of these patterns that only transports have so far."""
        for pattern in patterns:
            self._driver.announce(self._driver.local_interest.announce_unannounced(pattern))

    def set_queue_policy(self, key: Hashable, policy: IQueuePolicy) -> None:
        driver = self._driver
        is_changed = driver.local_interest.set_policy(key, policy)
        if is_changed and driver.state is not None and driver.local_interest.is_announced(key):
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
        is_announced = driver.local_interest.is_announced(key)
        if driver.local_interest.remove(key) and is_announced and driver.state is not None:
            driver.call(driver.state.withdraw_interest, key)
            driver.open_if_active()

    def set_resume_position(self, key: Hashable, position: Mapping[str, Mark]) -> None:
        if key in self._driver.local_interest:
            self._driver.resume_from(key, position)
