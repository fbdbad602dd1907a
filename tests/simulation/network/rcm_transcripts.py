"""Logs of simulated sites as transcripts of their group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker.event.annotation import annotation_of
from broker.event.order_entry import OrderEntry, decode_order_entry
from broker.log.known_flows import stream_of
from broker.testing.simulated_network import NetworkWorld
from broker.testing.transcripts import Key, SiteChecker, compare_sites, key_of
from broker.testing.transport_network import CARRIED, INSTANCE
from broker.transport.order import Instant, IOrderCore, MessageId, Stamp


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
    moves = {name: _find_moves(world, name, entries) for name, entries in logs.items()}
    assert order == "sequencer" or not any(moves.values())
    checkers = {name: SiteChecker(lost_commits, moves[name]) for name in logs}
    found = [f"{name}: {each}" for name in logs for each in checkers[name].check(logs[name])]
    for name, checker in checkers.items():
        checker.keys |= moves[name]
    found += compare_sites(checkers) if not found else ()
    assert not found, "\n".join(found[:10])
    return logs


def _find_moves(world: NetworkWorld, name: str, entries: Sequence[OrderEntry]) -> dict[Any, Key]:
    """Return messages of a log that have other places now.

    Two sequencers numbered them, or they were logged before their number.
    """
    transports = world[name].transports
    assert transports is not None
    transport: Any = next(each for each in transports if each.instance == INSTANCE)._transport
    core: IOrderCore = transport._group.core
    found: dict[Any, Key] = {}
    for entry in entries:
        key = key_of(entry)
        logged = None if key is None else Stamp(key.stamp, key.tie)
        stamp = core.find_stamp(MessageId(*entry.id), logged, Instant(0.0, 0))
        assert stamp is not None, f"{name} has {entry.id} without a stamp"
        if stamp != logged:
            found[entry.id] = Key(stamp.time, stamp.site, entry.number)
    return found
