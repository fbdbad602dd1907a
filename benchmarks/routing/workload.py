"""The workloads that engines are measured with: documents, and queries for them."""

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
from benchmarks.workloads.voevent_packets import NAMESPACES, Sample, packets, voevent_events
from benchmarks.workloads.voevents import voevent_queries
from broker.event.event_id import EventIdGenerator

#: Of the archive, when only little is wanted.
_FEW_PACKETS: Final = 1_500


@attrs.frozen
class Workload:
    """Documents that are all different, and what makes distinct queries for them."""

    name: str
    documents: Sequence[bytes]
    queries: Callable[[int, Mix], list[str]]
    namespaces: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def size(self) -> float:
        """Bytes of a document, on average."""
        return sum(map(len, self.documents)) / len(self.documents)


def flights(count: int) -> Workload:
    """So many flight records."""
    return Workload(
        "flights",
        list(flight_events(EventIdGenerator("publisher", 1), count)),
        lambda number, mix: [text for _, text in flight_queries(number, mix)],
    )


def voevents(count: int | None = None) -> Workload:
    """So many real VOEvents, or all there are. Raises `NoData`."""
    # What queries ask for is taken from all packets, unless only little is wanted.
    found = packets(_FEW_PACKETS if count is not None and count < _FEW_PACKETS else None)
    sample = Sample(found)
    return Workload(
        "VOEvents",
        list(voevent_events(EventIdGenerator("publisher", 1), found[:count])),
        lambda number, mix: [text for _, text in voevent_queries(sample, number, mix)],
        NAMESPACES,
    )


def nitf(count: int) -> Workload:
    """So many NITF documents; there is one mix of queries only. Raises `NoData`."""
    grammar = nitf_grammar()
    return Workload(
        "NITF",
        list(nitf_events(grammar, EventIdGenerator("publisher", 1), count)),
        lambda number, mix: nitf_queries(grammar, number),
    )
