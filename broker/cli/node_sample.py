"""Samples of the status of several nodes, with rates between two samples."""

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

#: Paths in a node's answer; several are added.
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
_LINK_COUNTERS: Final = ("sent", "sent_bytes", "received", "received_bytes")


@attrs.frozen
class Sample:
    """One status answer of a node, or the error in its place."""

    endpoint: str
    at: float
    """Seconds of the loop's clock."""
    status: Mapping[str, Any] | None = None
    error: str = ""

    def counters(self) -> dict[str, float]:
        """Counters of links are named `LINK/COUNTER`."""
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
        if self.status is None:
            return {"endpoint": self.endpoint, "error": self.error}
        return {"endpoint": self.endpoint, **self.status}


def compute_rates(before: Sample | None, now: Sample) -> dict[str, float]:
    """A counter that fell has no rate: the node or link was restarted."""
    if before is None or before.status is None or now.at <= before.at:
        return {}
    earlier, seconds = before.counters(), now.at - before.at
    return {
        name: (count - earlier[name]) / seconds
        for name, count in now.counters().items()
        if name in earlier and count >= earlier[name]
    }


def number_at(tree: Mapping[str, Any], *path: str) -> float:
    """Return 0 if a node of another version has no such number."""
    found: Any = tree
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, int | float) else 0


def links_of(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    network = status.get("network")
    if isinstance(network, Mapping):
        yield from (link for link in network.get("links", ()) if isinstance(link, Mapping))


def lags_of(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the subscriptions that are furthest behind."""
    durable = status.get("durable")
    if isinstance(durable, Mapping):
        named = durable.get("furthest_behind", ())
        yield from (lag for lag in named if isinstance(lag, Mapping))


class WatchedNode:
    def __init__(self, access: NodeAccess, endpoint: str, timeout: float) -> None:
        """The node has `timeout` seconds to answer."""
        self._access = attrs.evolve(access, endpoints=(endpoint,), timeout=timeout)
        self._endpoint = endpoint
        self._client: Client | None = None

    async def take_sample(self) -> Sample:
        """Errors are part of the sample; the next call retries."""
        try:
            status = await self._ask()
        except BrokerError as error:
            if not isinstance(error, GaveUp):
                # A refused client does not retry.
                await self.close()
            return Sample(self._endpoint, self._now(), error=str(error))
        return Sample(self._endpoint, self._now(), status)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close(CLOSE_TIMEOUT)

    async def _ask(self) -> Any:
        if self._client is None:
            self._client = self._access.make_client()
        await self._client.when_connected(self._access.timeout)
        return await self._access.ask_with(self._client, "status")

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


@contextlib.asynccontextmanager
async def watch_nodes(access: NodeAccess, timeout: float) -> AsyncIterator[list[WatchedNode]]:
    """Yield the watched nodes; their sessions end with the block."""
    nodes = [WatchedNode(access, endpoint, timeout) for endpoint in dict.fromkeys(access.endpoints)]
    try:
        yield nodes
    finally:
        await asyncio.gather(*(node.close() for node in nodes))


async def take_samples(nodes: list[WatchedNode]) -> list[Sample]:
    return list(await asyncio.gather(*(node.take_sample() for node in nodes)))
