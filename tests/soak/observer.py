"""Observations of a soak run, from the notebooks of clients and the logs of nodes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgpack

from broker.archive.archive import Archive
from broker.errors import BrokerError
from broker.event.place import Place
from broker.log.external_reader import ExternalReader, read_events
from broker.log.logged_event import header_from_fields
from broker.recovery.durable_handover import MAY_REPEAT
from broker.testing.guarantees import (
    Delivered,
    End,
    EventKey,
    Kind,
    Observations,
    Process,
    Published,
    ReportedGap,
)
from tests.soak.interests import ALL_INTERESTS
from tests.soak.node import SoakNode
from tests.soak.notebook import NotebookReader
from tests.soak.recorded_places import RecordedPlaces
from tests.soak.soak_client import SoakClient

#: Of a log.
PAGE = 5000


class Observer:
    def __init__(self) -> None:
        self.seen = Observations()
        self._pages: dict[tuple[str, int], NotebookReader] = {}
        self._processes: dict[tuple[str, int], Process] = {}
        self.newest_note_at = 0.0
        """Of a delivery or receipt."""
        self.flowing_clients: set[str] = set()
        """In some process."""
        self.caught_up_clients: set[str] = set()
        """They have received all past events."""
        self.refused_publications: list[str] = []
        self.recorded = RecordedPlaces()

    def read_notebooks(self, clients: Iterable[SoakClient]) -> Observations:
        for client in clients:
            for number, process in enumerate(client.processes, 1):
                pages = self._pages.setdefault(
                    (client.name, number), NotebookReader(client.notebook_of(number))
                )
                for line in pages.read_new():
                    self._record(client.name, number, line)
                if client.name in ALL_INTERESTS:
                    process_seen = self._process(client.name, number)
                    if not process.is_running and process_seen.end is End.RUNNING:
                        process_seen.end = End.KILLED
        return self.seen

    def read_archive(self, location: Path) -> list[str]:
        """Return problems."""
        try:
            covered = Archive.open(str(location), create=False).state().covered
            for origin, found in covered.items():
                self.recorded.add(origin, [upto for _, upto in found])
        except BrokerError as error:
            return [f"the archive can not be read: {error!r}"]
        return []

    def read_logs(self, nodes: Iterable[SoakNode]) -> list[str]:
        """Return problems."""
        problems = []
        for node in nodes:
            try:
                self._read_log(node)
            except Exception as error:
                # Reading a damaged log may raise anything.
                problems.append(f"the log of {node.name} can not be read: {error!r}")
        return problems

    # ------------------------------------------------------------------ notes

    def _process(self, name: str, number: int) -> Process:
        if (name, number) not in self._processes:
            interest = ALL_INTERESTS[name]
            transient = interest.kind is Kind.TRANSIENT
            subscriber_name = f"{name}#{number}" if transient else name
            found = [each for each in self.seen.subscribers if each.name == subscriber_name]
            subscriber = (
                found[0]
                if found
                else self.seen.add_subscriber(
                    subscriber_name,
                    interest.matches,
                    kind=interest.kind,
                    clearance=interest.clearance,
                )
            )
            self._processes[name, number] = subscriber.add_process()
        return self._processes[name, number]

    def _record(self, name: str, number: int, line: dict[str, Any]) -> None:
        kind, at = line["kind"], line["at"]
        if kind == "published":
            fields = {each: line[each] for each in ("stream", "type", "level", "digest", "value")}
            self.seen.record_publication(Published(EventKey(*line["key"]), at=at, **fields))
        elif kind == "receipt":
            key = EventKey(*line["key"])
            durability = "neighbour" if self.seen.events[key].stream[:5] == "safe." else "node"
            place = Place(*line["place"]) if line["place"] else None
            self.seen.record_receipt(key, durability, place, at)
            self.newest_note_at = at
        elif kind == "refused":
            self.refused_publications.append(f"{name}/{line['number']}: {line['error']}")
        elif name in ALL_INTERESTS:
            self._record_delivery(name, number, line)

    def _record_delivery(self, name: str, number: int, line: dict[str, Any]) -> None:
        process, kind, at = self._process(name, number), line["kind"], line["at"]
        if kind == "flowing":
            cut = line.get("cut")
            process.record_flow(
                cut if cut is None else {origin: tuple(mark) for origin, mark in cut.items()}, at
            )
            self.flowing_clients.add(name)
        elif kind == "accepted":
            process.may_repeat |= any(each.endswith(MAY_REPEAT) for each in line["warnings"])
        elif kind == "delivered":
            fields = ("stream", "type", "level", "digest", "liveness")
            process.items.append(
                Delivered(
                    EventKey(*line["key"]),
                    Place(*line["place"]),
                    at=at,
                    **{each: line[each] for each in fields},
                )
            )
            self.newest_note_at = at
        elif kind == "gap":
            first, last = Place(*line["first"]), Place(*line["last"])
            count, reason = line["count"], line["reason"]
            gap = ReportedGap(first.origin, first.mark, last.mark, count, reason, at)
            process.items.append(gap)
            self.newest_note_at = at
        elif kind == "caught-up":
            self.caught_up_clients.add(name)
            self.newest_note_at = at
        elif kind == "closed":
            process.end = End.CLOSED
        elif kind == "error":
            process.error = line["error"]

    def _read_log(self, node: SoakNode) -> None:
        folder = node.layout.data(node.name) / "log"
        log = ExternalReader(folder)
        for origin, mark in log.covered().items():
            self.recorded.add(origin, [mark])
        for origin, span in log.replica_spans().items():
            self.recorded.add(origin, [span.upto])
        chain = log.history_chain()
        self.recorded.set_histories(log.origin, chain.histories)
        self.recorded.add(log.origin, [loss.upto for loss in chain.losses])
        log.close()
        start = 1
        while events := read_events(folder, start, PAGE):
            for event in events:
                header = header_from_fields(msgpack.unpackb(event.record))
                self.seen.record_place(EventKey.of(header.event_id), event.place)
                self.recorded.add(event.origin, [event.mark])
            start = events[-1].serial + 1
