"""DTDs of a node, several versions of a type at once, each fetched once (M13, M17, T25)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

import attrs
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from broker.dtd.assembly import AssemblyLimits
from broker.dtd.async_store import AsyncDtdStore
from broker.dtd.catalogue import Catalogue
from broker.dtd.catalogue_source import CatalogueSource
from broker.dtd.dtd import Dtd
from broker.dtd.fetch_hint import FetchHint
from broker.dtd.fetch_slots import FetchSlots
from broker.dtd.interfaces import IDtd, IDtdCache, IDtdSource
from broker.dtd.missing_type import describe_missing_type
from broker.dtd.negative_cache import NegativeCache
from broker.dtd.reference import DtdReference
from broker.errors import (
    BadDtd,
    BrokerError,
    ForbiddenPointer,
    OurError,
    Overloaded,
    TooManyTypes,
    UnknownType,
)


@attrs.frozen
class CacheLimits:
    """Bounds of the cache; pinned DTDs do not count."""

    max_fetched: int = 128
    #: The least recently used one goes first.

    max_fetched_bytes: int = 16 * 1024 * 1024
    #: Compiled they take several times as much.

    max_failures: int = 1024
    #: The oldest goes first.

    failure_seconds: float = 30.0
    #: Seconds for which a failed look-up is not repeated.

    max_waiters: int = 10_000
    #: One more look-up of a fetch fails with `Overloaded`.

    dtd: AssemblyLimits = AssemblyLimits()

    max_hashes: int = 8192
    #: Dropped DTDs do not come back changed (T26).


@attrs.frozen
class _Waiter:
    hint: FetchHint
    found: Deferred[IDtd]


def _ignore(_: object) -> None:
    """Default of the callbacks."""


@implementer(IDtdCache)
class DtdCache:
    """DTDs of a node, several versions of a type at once, each fetched once (M13, M17, T25).

    `on_new_version` gets the reference of a DTD that is newer than all known versions of its type
    (M16), and `on_added` each new DTD that is not of the catalogue, in a reactor turn of its own.
    """

    _log = Logger()

    def __init__(
        self,
        catalogue: Catalogue,
        sources: Iterable[IDtdSource],
        limits: CacheLimits,
        clock: IReactorTime,
        on_new_version: Callable[[DtdReference], object] = _ignore,
        on_added: Callable[[IDtd], object] = _ignore,
        store: AsyncDtdStore | None = None,
        slots: FetchSlots | None = None,
    ) -> None:
        """All texts but the catalogue's are stored in `store`, and looked up there first. `slots`
        bounds the fetches from other sources."""
        self._slots = slots or FetchSlots()
        self._on_new_version = on_new_version
        self._on_added = on_added
        self.conflicts = 0
        #: Rejected second texts of a name.

        self._catalogue = catalogue
        self._shipped = catalogue.references()
        self.changes = 0
        self._store = store
        self._sources: tuple[IDtdSource, ...] = (CatalogueSource(catalogue), *sources)
        self._limits = limits
        self._clock = clock
        self._pinned: dict[DtdReference, Dtd] = {}
        self._fetched: OrderedDict[DtdReference, Dtd] = OrderedDict()
        self._fetched_bytes = 0
        self._hashes: OrderedDict[DtdReference, str] = OrderedDict()
        self._failures = NegativeCache(limits.max_failures, limits.failure_seconds)
        self._fetches: dict[DtdReference, list[_Waiter]] = {}
        if store is not None:
            store.store.on_dropped = self._uncache

    def get(self, reference: DtdReference) -> Dtd | None:
        dtd = self._pinned.get(reference)
        if dtd is None:
            dtd = self._fetched.get(reference)
            if dtd is not None:
                self._fetched.move_to_end(reference)
        return dtd

    def variants_of(self, reference: DtdReference) -> list[IDtd]:
        """Return local DTDs: the main one, then its variants."""
        found: list[IDtd] = []
        for known in self.references():
            if (known.type, known.version) == (reference.type, reference.version):
                self.lookup(known, FetchHint()).addCallbacks(found.append, lambda _: None)
        return found

    def references(self) -> tuple[DtdReference, ...]:
        """Return loaded, stored and catalogue DTDs, sorted."""
        return tuple(sorted(self._known(), key=DtdReference.sort_key))

    def versions(self, type_name: str) -> tuple[DtdReference, ...]:
        """Return the versions, oldest first, without variants."""
        found = (each for each in self._known() if each.type == type_name and not each.variant)
        return tuple(sorted(found, key=DtdReference.sort_key))

    def _known(self) -> set[DtdReference]:
        stored = () if self._store is None else self._store.references()
        return {*self._pinned, *self._fetched, *stored, *self._shipped}

    def known_hash(self, reference: DtdReference) -> str | None:
        known = self.get(reference)
        if known is None and reference in self._catalogue:
            loaded: list[IDtd] = []
            self.lookup(reference, FetchHint()).addCallbacks(loaded.append, lambda _: None)
            return loaded[0].content_hash if loaded else None
        return known.content_hash if known is not None else self._remembered_hash(reference)

    def lookup(self, reference: DtdReference, hint: FetchHint) -> Deferred[IDtd]:
        """See `IDtdCache`. A failure counts for its pointer only: a bad pointer does not block a
        good one."""
        known = self.get(reference)
        if known is not None:
            return succeed(known)
        if (stored := self._load_stored(reference)) is not None:
            return succeed(stored)
        refusal = self._failures.get(reference, hint.system_id, self._clock.seconds())
        if refusal is not None:
            return fail(refusal)
        waiting = self._fetches.get(reference)
        if waiting is not None and len(waiting) >= self._limits.max_waiters:
            return fail(Overloaded(f"{len(waiting)} events already wait for the DTD {reference}"))
        found: Deferred[IDtd] = Deferred()
        if waiting is not None:
            waiting.append(_Waiter(hint, found))
        else:
            self._fetches[reference] = [_Waiter(hint, found)]
            self._start_fetch(reference, hint)
        return found

    def add(
        self, reference: DtdReference, text: bytes, owner: str = "", content_hash: str = ""
    ) -> Dtd:
        """Load a text, or return the known DTD of the same content.

        Raises `BadDtd` for an unusable text, a second text of the reference (T26), or another
        `content_hash`. Raises `TooManyTypes` if `owner` has no room in the store.
        """
        dtd = self._compile(reference, text)
        if dtd.content_hash != (reference.variant or content_hash or dtd.content_hash):
            raise BadDtd(f"the text for {reference} does not fit its hash")
        known_hash = self._registered_hash(reference, text)
        if known_hash not in (None, dtd.content_hash):
            self.conflicts += 1
            self._log.warn(
                "rejected a DTD for {reference}: its content {other} is not the known {known}",
                reference=str(reference),
                known=known_hash,
                other=dtd.content_hash,
            )
            raise BadDtd(
                f"another DTD is known for {reference}: a changed DTD needs a new version "
                f"(content {dtd.content_hash[:12]}, known {str(known_hash)[:12]})"
            )
        self._failures.remove(reference)
        known = self.get(reference)
        if known is not None:
            return known
        if self._store is not None and reference not in self._catalogue:
            self._store.save(dtd, owner)
        self._add_new(dtd)
        return dtd

    def is_shipped(self, reference: DtdReference) -> bool:
        return reference in self._catalogue

    def require_hash(self, reference: DtdReference, content_hash: str) -> None:
        self._hashes[reference] = content_hash

    def join_fetch(self, reference: DtdReference) -> Deferred[IDtd] | None:
        """Return None without a running fetch."""
        waiting = self._fetches.get(reference)
        if waiting is None or len(waiting) >= self._limits.max_waiters:
            return None
        found: Deferred[IDtd] = Deferred()
        waiting.append(_Waiter(waiting[0].hint, found))
        return found

    def clear_failure(self, reference: DtdReference) -> None:
        self._failures.remove(reference)

    def remove(self, reference: DtdReference) -> bool:
        """Remove it from memory and disk, with hash and failures. A running fetch continues."""
        self.changes += 1
        self._failures.remove(reference)
        if self._store is not None:
            self._store.store.remove(reference)
        self._hashes.pop(reference, None)
        fetched = self._fetched.pop(reference, None)
        if fetched is not None:
            self._fetched_bytes -= len(fetched.text)
        return self._pinned.pop(reference, None) is not None or fetched is not None

    def pin(self, reference: DtdReference) -> None:
        dtd = self._fetched.pop(reference, None)
        if dtd is not None:
            self._fetched_bytes -= len(dtd.text)
            self._pinned[reference] = dtd
        elif reference not in self._pinned:
            raise UnknownType(f"no DTD is loaded for {reference}")

    def unpin(self, reference: DtdReference) -> None:
        """A catalogue DTD stays pinned."""
        if reference not in self._catalogue and reference in self._pinned:
            self._cache_fetched(self._pinned.pop(reference))

    def compile_text(self, reference: DtdReference, text: bytes) -> Dtd:
        """Compile a text without caching it. Raises `BadDtd`."""
        return self._compile(reference, text)

    def _compile(self, reference: DtdReference, text: bytes) -> Dtd:
        return Dtd.load(reference, text, self._catalogue.read, self._limits.dtd)

    def _registered_hash(self, reference: DtdReference, text: bytes) -> str | None:
        """The text may be loaded, in the catalogue, or dropped."""
        known = self.get(reference)
        if known is not None:
            return known.content_hash
        if reference in self._catalogue:
            own = self._catalogue.read(reference.public_id, reference.system_id)
            if own is not None and own != text:
                return self._compile(reference, own).content_hash
        return self._remembered_hash(reference)

    def _remembered_hash(self, reference: DtdReference) -> str | None:
        stored = None if self._store is None else self._store.known_hash(reference)
        return stored or self._hashes.get(reference)

    def _load_stored(self, reference: DtdReference) -> Dtd | None:
        """Load a stored text; an unusable one is fetched again."""
        if self._store is None:
            return None
        content_hash = self._store.known_hash(reference)
        text = self._store.read(reference)
        if text is None:
            if content_hash is not None:
                # The stored text was damaged: the fetched one must have the same hash (T26).
                self._remember_hash(reference, content_hash)
            return None
        try:
            dtd = self._compile(reference, text)
        except BadDtd as error:
            self._log.warn("the stored DTD {dtd}: {error}", dtd=str(reference), error=error)
            return None
        self._cache_fetched(dtd)
        return dtd

    def _add_new(self, dtd: Dtd) -> None:
        self.changes += 1
        reference = dtd.reference
        others = [each for each in self.versions(reference.type) if each != reference]
        if reference in self._catalogue:
            self._pinned[reference] = dtd
            return
        self._cache_fetched(dtd)
        self._clock.callLater(0, self._on_added, dtd)
        if others and others[-1] < reference and not reference.variant:
            self._clock.callLater(0, self._on_new_version, reference)

    def _cache_fetched(self, dtd: Dtd) -> None:
        self._fetched[dtd.reference] = dtd
        self._fetched_bytes += len(dtd.text)
        limits = self._limits
        while len(self._fetched) > 1 and (
            len(self._fetched) > limits.max_fetched
            or self._fetched_bytes > limits.max_fetched_bytes
        ):
            reference, dropped = self._fetched.popitem(last=False)
            self._fetched_bytes -= len(dropped.text)
            self._remember_hash(reference, dropped.content_hash)

    def _remember_hash(self, reference: DtdReference, content_hash: str) -> None:
        self._hashes[reference] = content_hash
        self._hashes.move_to_end(reference)
        if len(self._hashes) > self._limits.max_hashes:
            self._hashes.popitem(last=False)

    def _uncache(self, reference: DtdReference) -> None:
        """Drop a text that is not on disk any more: the next event stores it again."""
        dropped = self._fetched.pop(reference, None)
        if dropped is not None:
            self._fetched_bytes -= len(dropped.text)
            self._remember_hash(reference, dropped.content_hash)

    def _start_fetch(self, reference: DtdReference, hint: FetchHint) -> None:
        flight = Deferred.fromCoroutine(self._fetch(reference, hint))
        flight.addCallbacks(
            self._fetch_succeeded,
            self._fetch_failed,
            callbackArgs=(reference,),
            errbackArgs=(reference, hint),
        )

    async def _fetch(self, reference: DtdReference, hint: FetchHint) -> Dtd:
        """Ask the catalogues, which answer at once, and with a slot the other sources."""
        reasons: list[str] = []
        catalogues = [each for each in self._sources if isinstance(each, CatalogueSource)]
        others = [each for each in self._sources if not isinstance(each, CatalogueSource)]
        found, kind = await self._ask_sources(catalogues, reference, hint, reasons)
        if found is None and others:
            await self._slots.acquire(hint.owner)
            try:
                found, other = await self._ask_sources(others, reference, hint, reasons)
            finally:
                self._slots.release(hint.owner)
            kind = kind if other is UnknownType else other
        if found is None:
            if kind in (UnknownType, ForbiddenPointer):
                raise kind(describe_missing_type(reference, self.references(), reasons))
            raise kind(f"no DTD for {reference}: {'; '.join(reasons)}")
        return found

    async def _ask_sources(
        self,
        sources: Iterable[IDtdSource],
        reference: DtdReference,
        hint: FetchHint,
        reasons: list[str],
    ) -> tuple[Dtd | None, type[BadDtd] | type[UnknownType]]:
        """Ask sources in order. Return the DTD, or None and the most specific error class."""
        known = hint.content_hash or self._remembered_hash(reference) or ""
        asked = attrs.evolve(hint, content_hash=known)
        kind: type[BadDtd] | type[UnknownType] = UnknownType
        for source in sources:
            try:
                text = await source.fetch(reference, asked)
                owner = "" if isinstance(source, CatalogueSource) else hint.owner
                return self.add(reference, text, owner, hint.content_hash), kind
            except (UnknownType, BadDtd) as error:
                if isinstance(error, (BadDtd, ForbiddenPointer, TooManyTypes)):
                    kind = type(error)
                reasons.append(f"{source.name}: {error}")
            except BrokerError as error:
                reasons.append(f"{source.name}: {error}")
            except Exception:
                # A failing source must not block all events of a type.
                self._log.failure("source {source} failed", source=source.name)
                reasons.append(f"{source.name}: failed")
        return None, kind

    def _fetch_succeeded(self, dtd: Dtd, reference: DtdReference) -> None:
        for waiting in self._fetches.pop(reference):
            waiting.found.callback(dtd)

    def _fetch_failed(self, failure: Failure, reference: DtdReference, hint: FetchHint) -> None:
        everyone = self._fetches.pop(reference)
        refusal = failure.value
        if isinstance(refusal, BrokerError) and not isinstance(refusal, OurError):
            self._failures.add(reference, hint.system_id, refusal, self._clock.seconds())
        for waiting in everyone:
            if waiting.hint.system_id == hint.system_id:
                waiting.found.errback(failure)
            else:
                # Another pointer may succeed.
                self.lookup(reference, waiting.hint).chainDeferred(waiting.found)
