from __future__ import annotations

from collections.abc import Sequence

from broker.cluster.address import Address
from broker.cluster.traffic.frame import MAX_HOPS, Frame, encode_level_runs, encode_mark_runs
from broker.cluster.traffic.frame_content import PLAIN
from broker.cluster.traffic.frame_range import Range
from broker.event.place import Mark

HOME = Address(("a",), "n0")


def node(name: str, unit: str = "a") -> Address:
    return Address((unit,), name)


def unit(*path: str) -> Address:
    return Address(path, "")


def frame(
    ranges: Sequence[Range],
    events: Sequence[tuple[Mark, bytes, int]] = (),
    runs: Sequence[tuple[int, tuple[int, ...]]] = (),
    origin: str = "o",
) -> Frame:
    """Return a frame with events of (place, document, rank of the security level)."""
    return Frame(
        origin=origin,
        origin_node=HOME,
        level_runs=encode_level_runs([level for _, _, level in events]),
        hops=MAX_HOPS,
        ranges=ranges,
        mark_runs=encode_mark_runs([mark for mark, _, _ in events]),
        recipient_runs=runs,
        encoding=PLAIN,
        record_lengths=[1 for _ in events],
        document_lengths=[len(document) for _, document, _ in events],
        records=b"r" * len(events),
        body=b"".join(document for _, document, _ in events),
    )
