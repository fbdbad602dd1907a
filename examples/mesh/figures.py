"""Figures of the nodes of a mesh, from their `status`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from broker.client.asyncio_face import AsyncioClient
from examples.mesh.nodes import STACK

Counts = Mapping[str, int]
_NONE: Counts = {"first": 0, "duplicate": 0, "repaired": 0}


@attrs.frozen
class MeshSample:
    parents: Mapping[str, Counts]
    """Counts by name of the parent."""
    passed: int
    """Missing ranges that the mesh left to the log of their origin."""
    pages: int
    """Pages that the node requested of logs, over the network of nodes."""
    members: int
    """Reachable nodes of the cluster."""


async def take_sample(client: AsyncioClient) -> MeshSample:
    status: dict[str, Any] = await client.ask("status")
    (stack,) = [each for each in status["stacks"] if each["name"] == STACK]
    network = status["network"]
    return MeshSample(
        {each["name"]: each for each in stack["parents"]},
        stack["passed"],
        network.get("arrivals", {}).get("asked", 0),
        sum(each["reachable"] for each in network.get("members", ())),
    )


@attrs.define
class LeafFigures:
    """Sums over all parents of a leaf, also those that it has no more.

    A node forgets the counts of a parent with its connection, so samples are taken all the time.
    """

    first_parents: tuple[str, ...] = ()
    """Parents at the first sample."""
    first: int = 0
    """Events that the mesh brought."""
    repaired: int = 0
    """Of these, events that came first as a retransmission."""
    hidden: int = 0
    """Copies that a parent did not bring, of events that another parent brought. Superfluous
    retransmissions are subtracted: a node does not count them apart."""
    passed: int = 0
    pages: int = 0
    _last: MeshSample | None = None

    @property
    def parents(self) -> tuple[str, ...]:
        """Parents at the last sample."""
        return () if self._last is None else tuple(sorted(self._last.parents))

    def add(self, sample: MeshSample) -> None:
        if self._last is None:
            self.first_parents = tuple(sorted(sample.parents))
        else:
            self.passed += sample.passed - self._last.passed
            self.pages += sample.pages - self._last.pages
        differences = [self._compare(name, counts) for name, counts in sample.parents.items()]
        first = sum(each["first"] for each, _ in differences)
        self.first += first
        self.repaired += sum(each["repaired"] for each, _ in differences)
        # Of the time in which a parent is new, its share is not known.
        self.hidden += sum(
            first - each["first"] - each["duplicate"] for each, is_new in differences if not is_new
        )
        self._last = sample

    def _compare(self, name: str, counts: Counts) -> tuple[Counts, bool]:
        """Return the increase since the last sample, and whether the connection is new."""
        before = _NONE if self._last is None else self._last.parents.get(name, _NONE)
        is_new = before is _NONE or any(counts[key] < before[key] for key in _NONE)
        base = _NONE if is_new else before
        return {key: counts[key] - base[key] for key in _NONE}, is_new
