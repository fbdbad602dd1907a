"""Event types of the network at one node: announced, fetched ahead, told apart by their origin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from broker.channel.clock import IClock
from broker.cluster.address import Address, UnitPath
from broker.cluster.knowledge import Knowledge
from broker.cluster.types.core import Announced
from broker.cluster.types.fetching import TypeFetcher
from broker.cluster.types.origin_texts import OriginTexts
from broker.content.contract import NO_VARIANTS, Variants
from broker.dtd.cache import DtdCache
from broker.dtd.interfaces import IDtd
from broker.dtd.reference import DtdReference

#: Origins and homes for which the variants are remembered.
_REMEMBERED = 10_000


class NetworkTypes:
    """Kept while the node changes clusters; `knowledge` is what is known in the present one."""

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
        self._own: dict[DtdReference, str] = {}
        self._conflicts: set[DtdReference] = set()
        self._judged: set[tuple[str, UnitPath]] = set()
        self._knowledge: Knowledge | None = None
        self._do: Callable[[Sequence[Any]], object] = lambda _: None
        self.fetcher = TypeFetcher(dtds, clock, self._conflict)

    # ------------------------------------------------------------------ the cluster

    def start(self, knowledge: Knowledge, do: Callable[[Sequence[Any]], object]) -> None:
        """The node is in a cluster: announce what it has announced before. `do` does effects."""
        self._knowledge, self._do = knowledge, do
        self._judged.clear()
        self._announce(self._own)

    def stop(self) -> None:
        """The node is in no cluster."""
        self._knowledge = None
        self._do = lambda _: None
        self.fetcher.stop()

    def announced(self, announced: Announced) -> None:
        """Another node, or a unit, has announced a type."""
        self._judged.clear()
        self.fetcher.announced(announced)

    # ------------------------------------------------------------------ own types

    def announce(self, reference: DtdReference, content_hash: str) -> None:
        """Events of this type are, or may be, published here."""
        if self._own.get(reference) != content_hash:
            self._own[reference] = content_hash
            self._announce({reference: content_hash})

    def _announce(self, texts: dict[DtdReference, str]) -> None:
        if self._knowledge is not None and texts:
            now = float(self._clock.seconds())
            self._do(self._knowledge.announce(texts, self._origin, now))

    # ------------------------------------------------------------------ which text counts

    def variants(self, origin: str, home: Address | None = None) -> Variants:
        """The texts of an origin that are others than those that count here.

        `home` answers for the origin now; without it what was known before counts.
        """
        if self._conflicts and home is not None and self._knowledge is not None:
            self._judge(origin, home.unit)
        return self.texts.of(origin) if self.texts else NO_VARIANTS

    def _judge(self, origin: str, unit: UnitPath) -> None:
        assert self._knowledge is not None
        if (origin, unit) in self._judged:
            return
        if len(self._judged) >= _REMEMBERED:
            self._judged.clear()
        self._judged.add((origin, unit))
        for reference in self._conflicts:
            used = self._knowledge.types.hash_of(reference, origin, unit)
            if used is not None and used != self._dtds.known_hash(reference):
                self.texts.note(origin, reference, used)

    def _conflict(self, reference: DtdReference) -> None:
        self._conflicts.add(reference)
        self._judged.clear()

    def conflicts(self) -> list[dict[str, Any]]:
        """Names under which several texts are announced, and by whom: for people."""
        if self._knowledge is None:
            return []
        found = []
        everything = list(self._knowledge.types.all()) if self._conflicts else []
        for reference in sorted(self._conflicts):
            texts: dict[str, list[str]] = {}
            known = self._dtds.known_hash(reference)
            if known is not None and self._own.get(reference) == known:
                texts[known] = [self._origin]
            for each in everything:
                said = each.announcement
                if said.reference == reference:
                    users = said.origins or (".".join(each.unit) or each.author,)
                    texts.setdefault(said.content_hash, []).extend(users)
            found.append({"type": str(reference), "counts": known, "texts": texts})
        return found

    # ------------------------------------------------------------------ for neighbours

    def held(self, reference: DtdReference) -> list[IDtd]:
        """The DTDs under a type and version: the one that counts here, then variants."""
        found = self._dtds.held(reference)
        if not found and reference in self._own:
            own = self._in_folders(reference)
            found = [] if own is None else [own]
        return found

    def has_all(self) -> bool:
        """Whether every announced type is here, so that nothing unknown may match a query."""
        return self.fetcher.is_complete()
