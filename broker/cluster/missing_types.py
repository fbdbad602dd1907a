"""Look-ups of the types that a node lacks for received events of ordered flows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

import attrs

from broker.cluster.address import Address
from broker.cluster.types.awaited_announcements import AwaitedAnnouncements
from broker.dtd.fetch_hint import FetchHint
from broker.dtd.interfaces import IDtdCache
from broker.dtd.owner import of_node
from broker.dtd.reference import DtdReference
from broker.event.envelope import Validation
from broker.event.flow import origin_of
from broker.ingest.pending_dtds import PendingDtds
from broker.log.logged_event import validation_of
from broker.matching.contract import Variants
from broker.matching.prolog import PrologReader
from broker.streams.contract import FlowBatch

#: Types of one origin that are looked up at a time. Further ones follow when their events are the
#: next ones of the origin.
MOST_TYPES: Final = 16
_MOST_ORIGINS: Final = 1_000
_parse_address = lru_cache(maxsize=1_000)(Address.parse)


@attrs.frozen
class _Type:
    reference: DtdReference
    """The type that an event names."""
    text: DtdReference
    """The origin's text of it."""
    system_id: str


class MissingTypes:
    def __init__(
        self,
        dtds: IDtdCache,
        pending_dtds: PendingDtds,
        variants_of: Callable[[str, Address], Variants],
        announcements: AwaitedAnnouncements,
        *,
        accept_undescribed: bool,
    ) -> None:
        """With `accept_undescribed`, events wait for the end of one look-up, else until their type
        has come or is given up."""
        self._dtds = dtds
        self._pending_dtds = pending_dtds
        self._variants_of = variants_of
        self._announcements = announcements
        self._accept_undescribed = accept_undescribed
        self._prologs = PrologReader()
        self._looked_up: dict[str, set[DtdReference]] = {}
        """By origin."""

    def look_up(self, batch: FlowBatch) -> None:
        """Begin the look-ups for received events, before they are delivered."""
        for _, type in self._types_of(batch):
            if self._dtds.get(type.text) is None and not self._accept_undescribed:
                self._look_up_early(type, batch)

    def count_ready(self, batch: FlowBatch, call_back: Callable[[], object]) -> int:
        """Return how many events of a batch need not wait for their types.

        If others must, `call_back` is called when the first one of them need not wait any more.
        """
        node = _parse_address(batch.origin_node)
        for index, type in self._types_of(batch):
            if self._is_missing(type, batch):
                must_wait = self._wait_for_text(type, self._hint(type, batch), call_back)
            else:
                names = {(type.reference.type, type.reference.version)}
                origin = origin_of(batch.flow)
                must_wait = self._announcements.wait_for(origin, node, names, call_back)
            if must_wait:
                return index
        return len(batch.events)

    def _types_of(self, batch: FlowBatch) -> Iterator[tuple[int, _Type]]:
        """Yield each type with the first event of it, but for repetitions."""
        variants = self._variants_of(batch.flow, _parse_address(batch.origin_node))
        # Undescribed events need no type, and malformed documents are refused later.
        described = (
            b"" if validation_of(each.record) is Validation.UNDESCRIBED else each.document
            for each in batch.events
        )
        for index, prolog in self._prologs.read_changes(described):
            reference = prolog.reference
            if reference is not None:
                yield index, _Type(reference, variants.get(reference, reference), prolog.system_id)

    def _is_missing(self, type: _Type, batch: FlowBatch) -> bool:
        if self._dtds.get(type.text) is None and type.text not in self._pending_dtds:
            # It may be on the disk.
            found = self._dtds.lookup(type.text, self._hint(type, batch))
            found.addErrback(lambda _: None)
        return self._dtds.get(type.text) is None

    def _look_up_early(self, type: _Type, batch: FlowBatch) -> None:
        origin = origin_of(batch.flow)
        if len(self._looked_up) >= _MOST_ORIGINS:
            self._looked_up.clear()
        known = self._looked_up.setdefault(origin, set())
        if len(known) >= MOST_TYPES:
            known &= {each for each in known if each in self._pending_dtds}
        has_room = type.text not in known and len(known) < MOST_TYPES
        if has_room and self._is_missing(type, batch):
            known.add(type.text)
            self._pending_dtds.request(type.text, self._hint(type, batch))

    def _wait_for_text(self, type: _Type, hint: FetchHint, call_back: Callable[[], object]) -> bool:
        """Return True if `call_back` will be called: the text has come, or is given up."""
        is_waiting = has_ended = False

        def end(_: object) -> None:
            nonlocal has_ended
            has_ended = True
            if is_waiting:
                call_back()

        if self._accept_undescribed:
            self._dtds.lookup(type.text, hint).addBoth(end)
        else:
            self._pending_dtds.call_when_settled(type.text, hint, end)
        is_waiting = not has_ended
        return is_waiting

    def _hint(self, type: _Type, batch: FlowBatch) -> FetchHint:
        node = _parse_address(batch.origin_node)
        return FetchHint(type.system_id, node, owner=of_node(node.node))
