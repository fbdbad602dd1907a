"""Several nodes asked again and again: each answers for itself, or is a node that does not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from broker.cli.node_access import CLOSE_TIMEOUT, NodeAccess
from broker.errors import BrokerError, GaveUp

if TYPE_CHECKING:
    from broker.client.client import Client

#: Where the counters are in a node's answer of which rates are shown; several are added.
_COUNTERS: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "published": (("published", "received"),),
    "delivered": (("delivered", "delivered"),),
    "relayed": (("network", "relayed", "logged"),),
    "archived": (("recovery", "archive", "events"),),
    "recovered": tuple(
        ("recovery", "recoveries", "events", source)
        for source in ("log", "former", "logs", "archive")
    ),
    "frames": (("network", "frames", "begun"), ("network", "frames", "transit")),
}
#: Those of a link.
_LINK_COUNTERS: Final = ("sent", "sent_bytes", "received", "received_bytes")


@attrs.frozen
class Sample:
    """What a node said at one moment, or why it said nothing."""

    endpoint: str
    at: float
    """In seconds of the loop."""
    status: Mapping[str, Any] | None = None
    error: str = ""

    def counters(self) -> dict[str, float]:
        """Its counters by name; those of links as `LINK/COUNTER`."""
        if self.status is None:
            return {}
        found: dict[str, float] = {}
        for name, paths in _COUNTERS.items():
            found[name] = sum(number_at(self.status, *path) for path in paths)
        for link in links_of(self.status):
            for counter in _LINK_COUNTERS:
                found[f"{link.get('node')}/{counter}"] = number_at(link, counter)
        return found

    def to_json(self) -> dict[str, Any]:
        """As JSON tells it."""
        if self.status is None:
            return {"endpoint": self.endpoint, "error": self.error}
        return {"endpoint": self.endpoint, **self.status}


def compute_rates(before: Sample | None, now: Sample) -> dict[str, float]:
    """How much each counter has risen in a second. None is said of a counter that fell: the node,
    or the link, is a new one."""
    if before is None or before.status is None or now.at <= before.at:
        return {}
    earlier, seconds = before.counters(), now.at - before.at
    return {
        name: (count - earlier[name]) / seconds
        for name, count in now.counters().items()
        if name in earlier and count >= earlier[name]
    }


def number_at(tree: Mapping[str, Any], *path: str) -> float:
    """The number at a path of an answer; 0 where a node of another version has none."""
    found: Any = tree
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, int | float) else 0


def links_of(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The node's links to other nodes."""
    network = status.get("network")
    if isinstance(network, Mapping):
        yield from (link for link in network.get("links", ()) if isinstance(link, Mapping))


def lags_of(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The node's durable subscriptions that are furthest behind."""
    durable = status.get("durable")
    if isinstance(durable, Mapping):
        named = durable.get("furthest_behind", ())
        yield from (lag for lag in named if isinstance(lag, Mapping))


class WatchedNode:
    """One node that is asked, over one session as long as that lasts."""

    def __init__(self, access: NodeAccess, endpoint: str, timeout: float) -> None:
        """It has `timeout` seconds to answer."""
        self._access = attrs.evolve(access, endpoints=(endpoint,))
        self._endpoint = endpoint
        self._timeout = timeout
        self._client: Client | None = None

    async def take_sample(self) -> Sample:
        """Ask. What goes wrong is part of the sample; the next call tries again."""
        try:
            status = await self._ask()
        except BrokerError as error:
            if not isinstance(error, GaveUp):
                # A client that was turned away does not try again.
                await self.close()
            return Sample(self._endpoint, self._now(), error=str(error))
        return Sample(self._endpoint, self._now(), status)

    async def close(self) -> None:
        """Say goodbye."""
        client, self._client = self._client, None
        if client is not None:
            await client.close(CLOSE_TIMEOUT)

    async def _ask(self) -> Any:
        if self._client is None:
            self._client = self._access.make_client()
        client = self._client
        await client.when_connected(self._timeout)
        try:
            return await asyncio.wait_for(client.ask("status"), self._timeout)
        except TimeoutError:
            raise GaveUp(f"the node did not answer in {self._timeout:g} s") from None

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


@contextlib.asynccontextmanager
async def watch_nodes(access: NodeAccess, timeout: float) -> AsyncIterator[list[WatchedNode]]:
    """All nodes that the options name; their sessions end at the end."""
    nodes = [WatchedNode(access, endpoint, timeout) for endpoint in dict.fromkeys(access.endpoints)]
    try:
        yield nodes
    finally:
        await asyncio.gather(*(node.close() for node in nodes))


async def take_samples(nodes: list[WatchedNode]) -> list[Sample]:
    """Ask all at once."""
    return list(await asyncio.gather(*(node.take_sample() for node in nodes)))
