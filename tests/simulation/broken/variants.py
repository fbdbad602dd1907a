"""Broken variants of node and client, as patches. Each breaks one guarantee."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import attrs

from broker.client.duplicate_filter import DuplicateFilter
from broker.client.subscription import Subscription
from broker.cluster.signature_check import SignatureCheck
from broker.log.deduplication import Deduplication, Freshness
from broker.log.event_log import EventLog
from broker.log.history import HistoryTable
from broker.log.log_reader import LogReader
from broker.testing.simulated_network import NetworkWorld


@contextmanager
def acknowledge_before_commit() -> Iterator[None]:
    """Report events as durable when they are appended."""
    append = EventLog.append

    def appended(self: EventLog, entries: Sequence[Any], done: Any) -> None:
        def committed(result: object) -> None:
            """The report of the commit is dropped."""

        append(self, entries, committed)
        waiting = [each for each in (self._pending, self._committing) if each is not None]
        (events,) = [told for each in waiting for call, told in each.callbacks if call is committed]
        done(events)

    with patch.object(EventLog, "append", appended):
        yield


@contextmanager
def no_checksum() -> Iterator[None]:
    """Alter a letter in each event as it is read, without an error."""
    read = LogReader.read

    def altered(self: LogReader, *args: Any, **named: Any) -> Any:
        return read(self, *args, **named).addCallback(
            lambda events: [
                attrs.evolve(each, document=each.document.replace(b"<id>F", b"<id>G"))
                for each in events
            ]
        )

    with patch.object(LogReader, "read", altered):
        yield


@contextmanager
def places_reused(count: int = 3) -> Iterator[None]:
    """Start in the old epoch, `count` places before the end of the log."""

    def forgetful(self: HistoryTable, txn: Any, previous: int, known: int, *_: Any) -> Any:
        return previous, max(0, known - count)

    with patch.object(HistoryTable, "start_process", forgetful):
        yield


@contextmanager
def no_deduplication() -> Iterator[None]:
    with (
        patch.object(Deduplication, "record", lambda *_: Freshness.NEW),
        patch.object(DuplicateFilter, "drop_duplicates", lambda self, events: events),
    ):
        yield


@contextmanager
def silent_relay(world: NetworkWorld, relay: str, type_name: str) -> Iterator[None]:
    """Drop events of one type at a relay, but forward their ranges as complete. No node checks
    what their origin has signed."""
    traffic: Any = world.network_of(relay).driver.traffic
    came = traffic.receive_frame

    def sifted(frame: Any, now: float) -> Any:
        kept = [
            index
            for index, each in enumerate(frame.events_at(range(frame.event_count)))
            if f"DTD {type_name} ".encode() not in each.document
        ]
        return came(frame.with_only_events(kept), now)

    unchecked = patch.object(SignatureCheck, "accepts_frame", lambda *_, **__: True)
    with patch.object(traffic, "receive_frame", sifted), unchecked:
        yield


@contextmanager
def position_before_handling() -> Iterator[None]:
    """Report events as processed when the subscription returns them."""
    take = Subscription.take_ready

    def eager(self: Subscription) -> Any:
        events = take(self)
        portion = self._batch
        if portion is not None:
            self._owner.mark_processed(self._number, portion)
            # The credit must not be returned twice.
            self._batch = attrs.evolve(portion, delivery=attrs.evolve(portion.delivery))
        return events

    with patch.object(Subscription, "take_ready", eager):
        yield
