"""Logs of simulated sites as transcripts of their group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from broker.event.annotation import annotation_of
from broker.event.order_entry import MessageId, OrderEntry, decode_order_entry
from broker.log.known_flows import stream_of
from broker.log.moved_entries import read_changes
from broker.testing.simulated_network import NetworkWorld
from broker.testing.transcripts import SiteChecker, compare_sites, key_of
from broker.testing.transport_network import CARRIED, INSTANCE
from broker.transport import order as group_order
from broker.transport.order import IOrderCore


def read_entries(world: NetworkWorld, name: str) -> list[OrderEntry]:
    """Return the entries in the log of a site, in the order of delivery."""
    events = world.wait(world[name].event_log.read(1, 1 << 40, 1 << 60))
    found = [
        decode_order_entry(annotation_of(event.record))
        for event in events
        if stream_of(event.record) == CARRIED and not event.is_withheld
    ]
    assert None not in found, f"{name} has an event without an entry"
    return [entry for entry in found if entry is not None]


def check_transcripts(
    world: NetworkWorld, order: str, names: Sequence[str], *, lost_commits: bool
) -> dict[str, list[OrderEntry]]:
    """Check that sites have one transcript, sorted by stamp, and return their logs."""
    logs = {name: read_entries(world, name) for name in names}
    moved = {name: _find_moved(world, name) for name in logs}
    assert order == "sequencer" or not any(moved.values())
    checkers = {name: SiteChecker(lost_commits, moved[name]) for name in logs}
    found = [f"{name}: {each}" for name in logs for each in checkers[name].check(logs[name])]
    found += compare_sites(checkers) if not found else ()
    for name, entries in logs.items():
        found += _compare_with_core(world, name, entries)
    assert not found, "\n".join(found[:10])
    return logs


def _find_moved(world: NetworkWorld, name: str) -> set[MessageId]:
    """Return the messages of a log that have other places than when they were logged.

    Two sequencers numbered them, or they were logged before their number.
    """
    file: Any = world[name].event_log._file
    with file._reading() as txn:
        changes = list(read_changes(txn, file._tables, 0))
    events = [
        event
        for _, serials in changes
        for serial in serials
        for event in world.wait(world[name].event_log.read(serial, 1, 1 << 20))
    ]
    entries = [decode_order_entry(annotation_of(event.record)) for event in events]
    return {entry.id for entry in entries if entry is not None}


def _compare_with_core(
    world: NetworkWorld, name: str, entries: Sequence[OrderEntry]
) -> Iterator[str]:
    """Yield the entries of a log whose place is another one in the order."""
    transports = world[name].transports
    assert transports is not None
    transport: Any = next(each for each in transports if each.instance == INSTANCE)._transport
    core: IOrderCore = transport._group.core
    for entry in entries:
        key = key_of(entry)
        logged = None if key is None else group_order.Stamp(key.stamp, key.tie)
        stamp = core.find_stamp(
            group_order.MessageId(*entry.id), logged, group_order.Instant(0.0, 0)
        )
        if stamp is None or stamp != logged:
            yield f"{name}: {entry.id} has the place {logged} in the log, and is at {stamp}"
