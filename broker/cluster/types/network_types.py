"""Event types of the network at one node: announced, fetched in advance, told apart by origin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from broker.cluster.address import Address, unit_text
from broker.cluster.network_state import NetworkState
from broker.cluster.types.awaited_announcements import AwaitedAnnouncements
from broker.cluster.types.core import TypeAnnounced
from broker.cluster.types.fetcher import TypeFetcher
from broker.cluster.types.origin_texts import OriginTexts
from broker.dtd.cache import DtdCache
from broker.dtd.interfaces import IDtd
from broker.dtd.reference import DtdReference
from broker.event.flow import origin_of
from broker.matching.contract import NO_VARIANTS, Variants
from broker.transport.clock import IClock

_MAX_CACHED = 10_000


class NetworkTypes:
    """Event types of the network: announced, fetched in advance, told apart by origin.

    They last across changes of cluster. The network state is that of the present one.
    """

    def __init__(
        self,
        dtds: DtdCache,
        texts: OriginTexts,
        origin: str,
        clock: IClock,
        in_folders: Callable[[DtdReference], IDtd | None],
    ) -> None:
        """`in_folders` returns a DTD of the node's own catalogues that is not loaded."""
        self._in_folders = in_folders
        self._dtds = dtds
        self.texts = texts
        self._origin = origin
        self._clock = clock
        self._own_texts: dict[DtdReference, str] = {}
        self._conflicts: set[DtdReference] = set()
        self._checked: set[tuple[str, Address]] = set()
        self._state: NetworkState | None = None
        self._run_effects: Callable[[Sequence[Any]], object] = lambda _: None
        self.fetcher = TypeFetcher(dtds, clock, self._add_conflict)
        self.announcements = AwaitedAnnouncements(clock, self._may_differ)
        self._origin_nodes: dict[str, Address] = {}

    def start(self, state: NetworkState, run_effects: Callable[[Sequence[Any]], object]) -> None:
        """Announce all earlier types."""
        self._state, self._run_effects = state, run_effects
        self._checked.clear()
        self._announce(self._own_texts)
        self._announce_others(self.texts.origins_by_text())

    def stop(self) -> None:
        self._state = None
        self._run_effects = lambda _: None
        self.fetcher.stop()

    def receive_announcement(self, announced: TypeAnnounced) -> None:
        self._checked.clear()
        self.fetcher.fetch_announced(announced)
        self.announcements.recheck()

    def announce(self, reference: DtdReference, content_hash: str) -> None:
        if self._own_texts.get(reference) != content_hash:
            self._own_texts[reference] = content_hash
            self._announce({reference: content_hash})

    def _announce(self, texts: dict[DtdReference, str]) -> None:
        if self._state is not None:
            now = float(self._clock.seconds())
            self._run_effects(self._state.announce_types(texts, self._origin, now))

    def _announce_others(self, texts: Mapping[DtdReference, Sequence[str]]) -> None:
        if self._state is not None and texts:
            now = float(self._clock.seconds())
            self._run_effects(self._state.announce_variants(texts, now))

    def variants_of(self, origin: str, origin_node: Address | None = None) -> Variants:
        """Return the texts of an origin that differ from those that count here.

        `origin_node` serves the origin now; by default the last one counts.
        """
        origin = origin_of(origin)
        if origin == self._origin:
            return NO_VARIANTS
        if origin_node is None:
            origin_node = self._origin_nodes.get(origin)
        elif self._origin_nodes.get(origin) != origin_node:
            if len(self._origin_nodes) >= _MAX_CACHED:
                self._origin_nodes.clear()
            self._origin_nodes[origin] = origin_node
        if self._conflicts and origin_node is not None and self._state is not None:
            self._record_used_texts(origin, origin_node)
        return self.texts.variants_of(origin) if self.texts else NO_VARIANTS

    def _record_used_texts(self, origin: str, origin_node: Address) -> None:
        assert self._state is not None
        if (origin, origin_node) in self._checked:
            return
        if len(self._checked) >= _MAX_CACHED:
            self._checked.clear()
        self._checked.add((origin, origin_node))
        noted: set[DtdReference] = set()
        for reference in self._conflicts:
            used = self._state.types.hash_of(reference, origin, origin_node)
            if used is not None:
                text = DtdReference(reference.type, reference.version, used)
                if self.texts.record_text(
                    origin, text, counts=used == self._dtds.known_hash(reference)
                ):
                    noted.add(text)
        if noted:
            users = self.texts.origins_by_text()
            self._announce_others({each: users[each] for each in noted if each in users})

    def _may_differ(self, reference: DtdReference, origin: str, origin_node: Address) -> bool:
        """True if a text is here, and the origin's text is not announced.

        Shipped types count as equal everywhere until another text is announced.
        """
        state = self._state
        if state is None or origin == self._origin or self._dtds.is_shipped(reference):
            return False
        if self._dtds.known_hash(reference) is None:
            return False
        return state.types.hash_of(reference, origin, origin_node) is None

    def _add_conflict(self, reference: DtdReference) -> None:
        self._conflicts.add(reference)
        self._checked.clear()

    def conflicts(self) -> list[dict[str, Any]]:
        """Return names with several announced texts and their users, for the status."""
        if self._state is None:
            return []
        everything = list(self._state.types.announced_types()) if self._conflicts else []
        me, own = self._origin, str(self._state.address)
        return [
            {
                "type": str(reference),
                "counts": self._dtds.known_hash(reference),
                "texts": _users(
                    [each for each in everything if each.announcement.reference == reference],
                    {}
                    if reference not in self._own_texts
                    else {self._own_texts[reference]: {me: own}},
                ),
            }
            for reference in sorted(self._conflicts)
        ]

    def held_dtds(self, reference: DtdReference) -> list[IDtd]:
        """Return the DTDs under a type and version: first the one that counts here."""
        found = self._dtds.variants_of(reference)
        if not found and reference in self._own_texts:
            own = self._in_folders(reference)
            found = [] if own is None else [own]
        return found

    def has_all_types(self) -> bool:
        """Return True if all announced types are here: then no unknown type can match a query."""
        return self._state is not None and self.fetcher.is_complete()


def _users(
    announced: Iterable[TypeAnnounced], own: Mapping[str, Mapping[str, str]]
) -> dict[str, list[str]]:
    """Return the users of each text: a node's address, an origin, or a unit."""
    texts: dict[str, dict[str, str]] = {text: dict(users) for text, users in own.items()}
    for each in announced:
        announcement = each.announcement
        users = texts.setdefault(announcement.content_hash, {})
        unit = unit_text(each.unit)
        for origin in announcement.origins:
            if each.is_own:
                users[origin] = str(Address(each.unit, each.author))
            else:
                users.setdefault(origin, origin)
        if not announcement.origins:
            users[unit] = unit
    return {text: sorted(users.values()) for text, users in texts.items()}
