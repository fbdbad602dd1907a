"""Event types of a node: cache, storage and sources of their DTDs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.web.client import Agent

from broker.cluster.types.network_types import NetworkTypes
from broker.cluster.types.origin_texts import OriginTexts
from broker.config import Settings
from broker.dtd.async_store import AsyncDtdStore
from broker.dtd.cache import CacheLimits, DtdCache
from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.catalogue_source import CatalogueSource
from broker.dtd.fetch_hint import FetchHint
from broker.dtd.fetch_slots import FetchSlots
from broker.dtd.interfaces import IDtd, IDtdSource
from broker.dtd.owner import is_of_network
from broker.dtd.pointer_source import AllowedPrefix, PointerLimits, PointerSource
from broker.dtd.reference import DtdReference
from broker.dtd.store import DtdStore, StoreLimits
from broker.errors import BrokerError, ConfigurationError
from broker.ingest.late_validation import LateValidator
from broker.ingest.pending_dtds import PendingDtds
from broker.ingest.unvalidated_events import UnvalidatedEvents
from broker.limit_registry import LimitRegistry
from broker.log.event_log import EventLog
from broker.log.logged_event import LoggedEvent
from broker.matching.contract import NO_VARIANTS, IMatcher, Variants
from broker.matching.schema.known_types import KnownTypes
from broker.node.type_answers import Subscriber, TypeAnswers
from broker.subscriptions.new_versions import NewVersions

#: In the node's data.
DTD_FOLDER = "dtds"
#: Ms for which a DTD is kept beyond the log's oldest event; uses are recorded about hourly.
SLACK_MS = 24 * 3600 * 1000


class EventTypes:
    def __init__(
        self,
        settings: Settings,
        reactor: Any,
        sources: Sequence[IDtdSource],
        write: Callable[..., Deferred[Any]],
        wall_clock: Callable[[], int],
        on_new_version: Callable[[DtdReference], object],
        limit_registry: LimitRegistry,
    ) -> None:
        """DTDs are searched on disk, among the shipped ones, in the configured folders, in
        `sources`, and at the event's pointer. `write` runs calls on the thread that writes the log.
        Raises `ConfigurationError` for a folder without a catalogue."""
        type_settings = settings.types
        folder, sync = settings.node.data / DTD_FOLDER, settings.log.sync
        store = DtdStore(
            folder,
            StoreLimits(type_settings.max_versions, type_settings.max_bytes),
            sync=sync,
            limit_registry=limit_registry,
        )
        shipped = Catalogue.load(shipped_folder())
        self._folders = _folders(type_settings.folders)
        self._reactor, self._write, self._wall_clock = reactor, write, wall_clock
        self._max_age_ms = int(settings.log.max_age * 1000)
        self._origin_texts = OriginTexts(folder / "origins.json", write, sync=sync)
        self._type_counts: dict[tuple[str, str], int] = {}
        self.dtd_store = AsyncDtdStore(store, write, wall_clock, reactor)
        all_sources = [
            *map(CatalogueSource, self._folders),
            *sources,
            PointerSource(
                Agent(reactor, connectTimeout=PointerLimits().timeout),
                reactor,
                [AllowedPrefix.parse(url) for url in type_settings.pointers],
            ),
        ]
        self.dtds = DtdCache(
            shipped,
            all_sources,
            CacheLimits(),
            reactor,
            on_new_version=on_new_version,
            on_added=self._announce_added,
            store=self.dtd_store,
            slots=FetchSlots(limit_registry),
        )
        self.known_types = KnownTypes(self.dtds, shipped, self._folders)
        self.pending_dtds = PendingDtds(self.dtds, reactor, settings.network.gap_timeout)
        self.unvalidated_events = UnvalidatedEvents(folder / "undecided.json", write, sync=sync)
        self.new_versions = NewVersions(folder / "versions.json", write, wall_clock, sync=sync)
        self.network: NetworkTypes | None = None

    # ------------------------------------------------------------------ the network

    def join_network(self, origin: str) -> NetworkTypes:
        """`origin` is that of the node's log."""
        network = NetworkTypes(
            self.dtds, self._origin_texts, origin, self._reactor, self.known_types.get_dtd
        )
        own = {each for folder in self._folders for each in folder.references()}
        own |= {e.reference for e in self.dtd_store.store if not is_of_network(e.owner)}
        for reference in sorted(own):
            content_hash = self.dtd_store.known_hash(reference)
            if content_hash is None and (dtd := self.known_types.get_dtd(reference)) is not None:
                content_hash = dtd.content_hash
                self.dtds.require_hash(reference, content_hash)
            if content_hash is not None and not reference.variant:
                network.announce(reference, content_hash)
        self.network = network
        return network

    def announce(self, reference: DtdReference) -> None:
        if self.network is not None:
            content_hash = self.dtds.known_hash(reference)
            if content_hash is not None:
                self.network.announce(reference, content_hash)

    def _announce_added(self, dtd: IDtd) -> None:
        """Announce a DTD before its first event, unless it came from the network."""
        entry = self.dtd_store.store.get(dtd.reference)
        if entry is not None and not is_of_network(entry.owner):
            self.announce(dtd.reference)

    def has_all_types(self) -> bool:
        return self.network is None or self.network.has_all_types()

    def find_variants(self, origin: str) -> Variants:
        """Return the DTD texts of an origin that differ from those used here."""
        return NO_VARIANTS if self.network is None else self.network.variants_of(origin)

    def build_answers(self, subscribers: Callable[[], Iterator[Subscriber]]) -> TypeAnswers:
        return TypeAnswers(self.dtds, self.known_types, subscribers, self._reactor, self.dtd_store)

    def build_late_validator(self, matcher: IMatcher) -> LateValidator:
        return LateValidator(
            matcher, self.unvalidated_events, self.pending_dtds, self.find_variants
        )

    # ------------------------------------------------------------------ care

    def start(self, log: EventLog) -> None:
        if self.unvalidated_events.is_file_damaged:
            marks = log.coverage.marks
            marks = {flow: mark for flow, mark in marks.items() if not log.flows.is_own(flow)}
            self.unvalidated_events.add_all(log.begins_after, marks)

    def run_maintenance(self, matcher: IMatcher, log: EventLog) -> None:
        """Record types in use, and remove state of trimmed events."""
        self.unvalidated_events.remove_trimmed(log.begins_after)
        self._record_uses(matcher)
        log.read(log.bounds.first, 1, 1).addCallbacks(self._set_needed_since, lambda _: None)

    def _record_uses(self, matcher: IMatcher) -> None:
        counts = {
            (each.type, each.version): each.recognised + each.parsed
            for each in matcher.type_counters()
        }
        # Rare types are counted together. If that count changed, all types count as used.
        others = counts.get(("", "")) != self._type_counts.get(("", ""))
        for entry in self.dtd_store.store:
            name = (entry.reference.type, entry.reference.version)
            if others or counts.get(name, 0) != self._type_counts.get(name, 0):
                self.dtd_store.store.record_use(entry.reference, self._wall_clock())
        self._type_counts = counts

    def _set_needed_since(self, events: Sequence[LoggedEvent]) -> None:
        now = self._wall_clock()
        oldest = events[0].arrival if events else now
        self.dtd_store.store.needed_since_ms = min(oldest, now - self._max_age_ms) - SLACK_MS

    def find_text(self, reference: DtdReference, origin: str = "") -> Deferred[bytes | None]:
        """Return the text that an origin's events use; None if unknown."""
        reference = self.find_variants(origin).get(reference, reference)
        dtd: Deferred[Any] = self.dtds.lookup(reference, FetchHint(""))
        return dtd.addCallbacks(lambda found: found.text, lambda _: None)

    def stop(self) -> None:
        self.pending_dtds.stop()

    def snapshot(self) -> dict[str, Any]:
        store = self.dtd_store.store
        return {
            "stored": len(list(store)),
            "stored_bytes": sum(entry.size for entry in store),
            "damaged": store.damaged,
            "not_written": store.failed,
            "refused": store.refused,
            "awaited": len(self.pending_dtds),
            "not_announced_in_time": 0
            if self.network is None
            else self.network.announcements.given_up,
            "given_up": self.pending_dtds.given_up,
            "undecided_events": self.unvalidated_events.count,
            "conflicts": [] if self.network is None else self.network.conflicts(),
            "fetched_ahead": {} if self.network is None else dict(self.network.fetcher.counts),
            "origins_with_other_texts": self._origin_texts.snapshot(),
        }


def _folders(paths: Sequence[Path]) -> list[Catalogue]:
    try:
        return [Catalogue.load(folder) for folder in paths]
    except BrokerError as error:
        raise ConfigurationError(f"types.folders: {error}") from None
