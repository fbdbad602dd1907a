"""What a node's subscriptions want of other nodes, for the router."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from broker.cluster.driver import ClusterDriver
from broker.cluster.local_interest import FlowingCallback
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.matching.query.query import Query


class OwnInterest:
    """Implements `broker.subscriptions.interest.Interest`."""

    def __init__(self, driver: ClusterDriver) -> None:
        self._driver = driver

    def is_wanted(self, key: Hashable, pattern: StreamPattern, query: Query) -> bool:
        """Whether exactly this has been wanted under that key until now."""
        return self._driver.local.is_wanted(key, pattern, query)

    def want(
        self,
        key: Hashable,
        pattern: StreamPattern,
        query: Query,
        flows: FlowingCallback,
        goes_on: Mapping[str, Mark] | None = None,
    ) -> None:
        """Let others know; in no cluster it flows at once."""
        driver = self._driver
        driver.wants.present(key)
        if driver.local.is_wanted(key, pattern, query):
            if goes_on is not None:
                driver.goes_on(key, goes_on)
            driver.local.follow(key, flows)
            return
        driver.local.add(key, pattern, query, flows)
        if goes_on is not None:
            driver.goes_on(key, goes_on)
        if driver.knowledge is None:
            driver.local.flows_alone(key, {})
            return
        driver.do(driver.knowledge.want(key, pattern, query, driver.now()))

    def away(self, key: Hashable) -> None:
        """Nobody is here for what the key wants; it is matched still."""
        local = self._driver.local
        if key in local:
            self._driver.wants.absent(key, local[key])

    def unwant(self, key: Hashable) -> None:
        """Nobody has this key any more."""
        driver = self._driver
        driver.wants.present(key)
        if driver.local.remove(key) and driver.knowledge is not None:
            driver.do(driver.knowledge.unwant(key, driver.now()))
            driver.all_flow()

    def goes_on(self, key: Hashable, position: Mapping[str, Mark]) -> None:
        """It is known by now where what the key wants goes on."""
        if key in self._driver.local:
            self._driver.goes_on(key, position)
