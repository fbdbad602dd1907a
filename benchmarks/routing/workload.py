"""Workloads for engines: documents, and queries for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from benchmarks.workloads.flight_records import flight_events
from benchmarks.workloads.flights import flight_queries
from benchmarks.workloads.mix import Mix
from benchmarks.workloads.nitf import nitf_queries
from benchmarks.workloads.nitf_documents import nitf_events
from benchmarks.workloads.nitf_grammar import nitf_grammar
from benchmarks.workloads.voevent_packets import NAMESPACES, Sample, load_packets, voevent_events
from benchmarks.workloads.voevents import voevent_queries
from broker.event.event_id import EventIdGenerator

#: For small runs.
_FEW_PACKETS: Final = 1_500


@attrs.frozen
class Workload:
    name: str
    documents: Sequence[bytes]
    queries: Callable[[int, Mix], list[str]]
    namespaces: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def size(self) -> float:
        """Mean bytes of a document."""
        return sum(map(len, self.documents)) / len(self.documents)


def flights(count: int) -> Workload:
    return Workload(
        "flights",
        list(flight_events(EventIdGenerator("publisher", 1), count)),
        lambda number, mix: [text for _, text in flight_queries(number, mix)],
    )


def voevents(count: int | None = None) -> Workload:
    """Return so many real VOEvents, or all. Raises `NoData`."""
    # Literals of queries come from all packets, except in small runs.
    found = load_packets(_FEW_PACKETS if count is not None and count < _FEW_PACKETS else None)
    sample = Sample(found)
    return Workload(
        "VOEvents",
        list(voevent_events(EventIdGenerator("publisher", 1), found[:count])),
        lambda number, mix: [text for _, text in voevent_queries(sample, number, mix)],
        NAMESPACES,
    )


def nitf(count: int) -> Workload:
    """There is only one mix of queries. Raises `NoData`."""
    grammar = nitf_grammar()
    return Workload(
        "NITF",
        list(nitf_events(grammar, EventIdGenerator("publisher", 1), count)),
        lambda number, mix: nitf_queries(grammar, number),
    )
