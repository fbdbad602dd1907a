"""The DTDs that a node knows: several versions side by side, each fetched once (M13, M17, T25)."""

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
from broker.dtd.catalogue import Catalogue
from broker.dtd.dtd import Dtd
from broker.dtd.hint import FetchHint
from broker.dtd.interfaces import IDtd, IDtdCache, IDtdSource
from broker.dtd.reference import DtdReference
from broker.dtd.refusals import Refusals
from broker.dtd.sources import CatalogueSource
from broker.dtd.stored import StoredDtds
from broker.errors import (
    BadDtd,
    BrokerError,
    ForbiddenPointer,
    Overloaded,
    TooManyTypes,
    UnknownType,
)


@attrs.frozen
class CacheLimits:
    """Bounds of the cache. What is pinned (the catalogue, and by `pin`) does not count."""

    max_fetched: int = 128
    #: DTDs from elsewhere; the one used longest ago goes first.

    max_fetched_bytes: int = 16 * 1024 * 1024
    #: Of their texts; compiled they take several times that.

    max_refusals: int = 1024
    #: Failed look-ups remembered; the oldest goes first.

    refusal_seconds: float = 30.0
    #: How long a failed look-up is not repeated.

    max_waiting: int = 10_000
    #: Look-ups that wait for one fetch; a further one fails with `Overloaded`.

    dtd: AssemblyLimits = AssemblyLimits()
    #: Of each DTD.

    max_hashes: int = 8192
    #: Content hashes remembered of DTDs that had to go, so that none comes back changed (T26).


@attrs.frozen
class _Waiting:
    hint: FetchHint
    found: Deferred[IDtd]


def _nobody(_: object) -> None:
    """Called with new DTDs and versions unless another function is given."""


@implementer(IDtdCache)
class DtdCache:
    """Implements `IDtdCache` over a catalogue and, behind it, further sources in their order.

    The clock times refusals, and calls `on_new_version` in a turn of its own: with the reference of
    a DTD that is newer than all others known of its type, one of which there was (M16).
    """

    _log = Logger()

    def __init__(
        self,
        catalogue: Catalogue,
        sources: Iterable[IDtdSource],
        limits: CacheLimits,
        clock: IReactorTime,
        on_new_version: Callable[[DtdReference], object] = _nobody,
        stored: StoredDtds | None = None,
    ) -> None:
        """With `stored` all texts but those of the catalogue are kept on disk, and read from there
        before any source is asked."""
        self.on_new_version = on_new_version
        self.on_added: Callable[[IDtd], object] = _nobody
        #: Called with each DTD that was not known before, the catalogue's excepted.

        self.conflicts = 0
        #: Texts refused since another text of the same type and version is known.

        self._catalogue = catalogue
        self._stored = stored
        self._sources: tuple[IDtdSource, ...] = (CatalogueSource(catalogue), *sources)
        self._limits = limits
        self._clock = clock
        self._pinned: dict[DtdReference, Dtd] = {}
        self._fetched: OrderedDict[DtdReference, Dtd] = OrderedDict()
        self._fetched_bytes = 0
        self._hashes: OrderedDict[DtdReference, str] = OrderedDict()
        self._refusals = Refusals(limits.max_refusals, limits.refusal_seconds)
        self._flights: dict[DtdReference, list[_Waiting]] = {}
        if stored is not None:
            stored.store.on_dropped = self._drop

    # ---------------------------------------------------------------- reading

    def get(self, reference: DtdReference) -> Dtd | None:
        """The DTD if it is loaded."""
        dtd = self._pinned.get(reference)
        if dtd is None:
            dtd = self._fetched.get(reference)
            if dtd is not None:
                self._fetched.move_to_end(reference)
        return dtd

    def held(self, reference: DtdReference) -> list[IDtd]:
        """All DTDs under a type and version that are here: the one that counts, then variants."""
        found: list[IDtd] = []
        for known in self.references():
            if (known.type, known.version) == (reference.type, reference.version):
                self.lookup(known, FetchHint()).addCallbacks(found.append, lambda _: None)
        return found

    def references(self) -> tuple[DtdReference, ...]:
        """All that is loaded, stored or in the catalogue, sorted by type and version."""
        stored = () if self._stored is None else self._stored.references()
        known = {*self._pinned, *self._fetched, *stored, *self._catalogue.references()}
        return tuple(sorted(known))

    def versions(self, type_name: str) -> tuple[DtdReference, ...]:
        """Those of one type, oldest version first, without variants."""
        return tuple(
            known for known in self.references() if known.type == type_name and not known.variant
        )

    def known_hash(self, reference: DtdReference) -> str | None:
        """The content hash of the text that the reference names here, loaded or not."""
        known = self.get(reference)
        if known is None and reference in self._catalogue:
            loaded: list[IDtd] = []
            self.lookup(reference, FetchHint()).addCallbacks(loaded.append, lambda _: None)
            return loaded[0].content_hash if loaded else None
        return known.content_hash if known is not None else self._remembered_hash(reference)

    def lookup(self, reference: DtdReference, hint: FetchHint) -> Deferred[IDtd]:
        """The DTD, from the first source that has a good one; see `IDtdCache`.

        A failure is remembered for the pointer that it came with: an event with a bad pointer does
        not keep out one with a good pointer.
        """
        known = self.get(reference)
        if known is not None:
            return succeed(known)
        if (stored := self._from_disk(reference)) is not None:
            return succeed(stored)
        refusal = self._refusals.get(reference, hint.system_id, self._clock.seconds())
        if refusal is not None:
            return fail(refusal)
        waiting = self._flights.get(reference)
        if waiting is not None and len(waiting) >= self._limits.max_waiting:
            return fail(Overloaded(f"{len(waiting)} events already wait for the DTD {reference}"))
        found: Deferred[IDtd] = Deferred()
        if waiting is not None:
            waiting.append(_Waiting(hint, found))
        else:
            self._flights[reference] = [_Waiting(hint, found)]
            self._start(reference, hint)
        return found

    # ---------------------------------------------------------------- changing

    def add(
        self, reference: DtdReference, text: bytes, owner: str = "", content_hash: str = ""
    ) -> Dtd:
        """Load a text as this type and version; the DTD known already if it says the same.

        Raises `BadDtd`, also if another text is known for the reference (T26) or the text does not
        have `content_hash`, and `TooManyTypes` if `owner` has no room in the store.
        """
        dtd = self._load(reference, text)
        if dtd.content_hash != (reference.variant or content_hash or dtd.content_hash):
            raise BadDtd(f"the text for {reference} does not fit its hash")
        known_hash = self._known_hash(reference, text)
        if known_hash not in (None, dtd.content_hash):
            self.conflicts += 1
            self._log.warn(
                "refused a DTD for {reference}: its content {other} is not the known {known}",
                reference=str(reference),
                known=known_hash,
                other=dtd.content_hash,
            )
            raise BadDtd(
                f"another DTD is known for {reference}: a changed DTD needs a new version "
                f"(content {dtd.content_hash[:12]}, known {str(known_hash)[:12]})"
            )
        self._refusals.forget(reference)
        known = self.get(reference)
        if known is not None:
            return known
        if self._stored is not None and reference not in self._catalogue:
            self._stored.keep(dtd, owner)
        self._keep(dtd)
        return dtd

    def is_shipped(self, reference: DtdReference) -> bool:
        """Whether the catalogue that comes with the program has it."""
        return reference in self._catalogue

    def note_hash(self, reference: DtdReference, content_hash: str) -> None:
        """Refuse other texts for a reference than the one with this hash."""
        self._hashes[reference] = content_hash

    def flight(self, reference: DtdReference) -> Deferred[IDtd] | None:
        """The result of a fetch under way; None if there is none."""
        waiting = self._flights.get(reference)
        if waiting is None or len(waiting) >= self._limits.max_waiting:
            return None
        found: Deferred[IDtd] = Deferred()
        waiting.append(_Waiting(waiting[0].hint, found))
        return found

    def retry(self, reference: DtdReference) -> None:
        """Let the next look-up ask the sources, though one has failed a short while ago."""
        self._refusals.forget(reference)

    def forget(self, reference: DtdReference) -> bool:
        """Drop the DTD, on disk too, its hash and its refusals; a fetch under way goes on."""
        self._refusals.forget(reference)
        if self._stored is not None:
            self._stored.store.forget(reference)
        self._hashes.pop(reference, None)
        fetched = self._fetched.pop(reference, None)
        if fetched is not None:
            self._fetched_bytes -= len(fetched.text)
        return self._pinned.pop(reference, None) is not None or fetched is not None

    def pin(self, reference: DtdReference) -> None:
        """Exempt a loaded DTD from the bounds, for instance since the archive has events of it."""
        dtd = self._fetched.pop(reference, None)
        if dtd is not None:
            self._fetched_bytes -= len(dtd.text)
            self._pinned[reference] = dtd
        elif reference not in self._pinned:
            raise UnknownType(f"no DTD is loaded for {reference}")

    def unpin(self, reference: DtdReference) -> None:
        """Undo `pin`. Does nothing for one of the catalogue, or one that is not pinned."""
        if reference not in self._catalogue and reference in self._pinned:
            self._hold(self._pinned.pop(reference))

    # ---------------------------------------------------------------- inside

    def load(self, reference: DtdReference, text: bytes) -> Dtd:
        """The DTD that a text is, checked and not kept; raises `BadDtd`."""
        return self._load(reference, text)

    def _load(self, reference: DtdReference, text: bytes) -> Dtd:
        return Dtd.load(reference, text, self._catalogue.read, self._limits.dtd)

    def _known_hash(self, reference: DtdReference, text: bytes) -> str | None:
        """What the reference stands for already: loaded, in the catalogue, or let go."""
        known = self.get(reference)
        if known is not None:
            return known.content_hash
        if reference in self._catalogue:
            own = self._catalogue.read(reference.public_id, reference.system_id)
            if own is not None and own != text:
                return self._load(reference, own).content_hash
        return self._remembered_hash(reference)

    def _remembered_hash(self, reference: DtdReference) -> str | None:
        stored = None if self._stored is None else self._stored.known_hash(reference)
        return stored or self._hashes.get(reference)

    def _from_disk(self, reference: DtdReference) -> Dtd | None:
        """A stored text, loaded. One that can not be used any more is fetched again."""
        if self._stored is None:
            return None
        content_hash = self._stored.known_hash(reference)
        text = self._stored.read(reference)
        if text is None:
            if content_hash is not None:
                # It was damaged: the text that is fetched instead must be the same (T26).
                self._remember_hash(reference, content_hash)
            return None
        try:
            dtd = self._load(reference, text)
        except BadDtd as error:
            self._log.warn("the stored DTD {dtd}: {error}", dtd=str(reference), error=error)
            return None
        self._hold(dtd)
        return dtd

    def _keep(self, dtd: Dtd) -> None:
        reference = dtd.reference
        others = [each for each in self.versions(reference.type) if each != reference]
        if reference in self._catalogue:
            self._pinned[reference] = dtd
            return
        self._hold(dtd)
        self._clock.callLater(0, self.on_added, dtd)
        if others and others[-1] < reference and not reference.variant:
            self._clock.callLater(0, self.on_new_version, reference)

    def _hold(self, dtd: Dtd) -> None:
        self._fetched[dtd.reference] = dtd
        self._fetched_bytes += len(dtd.text)
        limits = self._limits
        while len(self._fetched) > 1 and (
            len(self._fetched) > limits.max_fetched
            or self._fetched_bytes > limits.max_fetched_bytes
        ):
            reference, gone = self._fetched.popitem(last=False)
            self._fetched_bytes -= len(gone.text)
            self._remember_hash(reference, gone.content_hash)

    def _remember_hash(self, reference: DtdReference, content_hash: str) -> None:
        self._hashes[reference] = content_hash
        self._hashes.move_to_end(reference)
        if len(self._hashes) > self._limits.max_hashes:
            self._hashes.popitem(last=False)

    def _drop(self, reference: DtdReference) -> None:
        """A text is not on disk any more: its next event has it fetched and stored again."""
        gone = self._fetched.pop(reference, None)
        if gone is not None:
            self._fetched_bytes -= len(gone.text)
            self._remember_hash(reference, gone.content_hash)

    def _start(self, reference: DtdReference, hint: FetchHint) -> None:
        flight = Deferred.fromCoroutine(self._fetch(reference, hint))
        flight.addCallbacks(
            self._landed, self._failed, callbackArgs=(reference,), errbackArgs=(reference, hint)
        )

    async def _fetch(self, reference: DtdReference, hint: FetchHint) -> Dtd:
        """Ask the sources in turn; the error to raise is the most telling of theirs."""
        reasons: list[str] = []
        known = hint.content_hash or self._remembered_hash(reference) or ""
        asked = attrs.evolve(hint, content_hash=known)
        kind: type[BadDtd] | type[UnknownType] = UnknownType
        for source in self._sources:
            try:
                text = await source.fetch(reference, asked)
                owner = "" if isinstance(source, CatalogueSource) else hint.owner
                return self.add(reference, text, owner, hint.content_hash)
            except (UnknownType, BadDtd) as error:
                if isinstance(error, (BadDtd, ForbiddenPointer, TooManyTypes)):
                    kind = type(error)
                reasons.append(f"{source.name}: {error}")
            except BrokerError as error:
                reasons.append(f"{source.name}: {error}")
            except Exception:
                # A source must not be able to hang all events of a type; its bug goes to the log.
                self._log.failure("source {source} failed", source=source.name)
                reasons.append(f"{source.name}: failed")
        raise kind(f"no DTD for {reference}: {'; '.join(reasons) or 'there is no source'}")

    def _landed(self, dtd: Dtd, reference: DtdReference) -> None:
        for waiting in self._flights.pop(reference):
            waiting.found.callback(dtd)

    def _failed(self, failure: Failure, reference: DtdReference, hint: FetchHint) -> None:
        everyone = self._flights.pop(reference)
        refusal = failure.value
        if isinstance(refusal, BrokerError):
            self._refusals.add(reference, hint.system_id, refusal, self._clock.seconds())
        for waiting in everyone:
            if waiting.hint.system_id == hint.system_id:
                waiting.found.errback(failure)
            else:
                # It has another pointer, which may do better.
                self.lookup(reference, waiting.hint).chainDeferred(waiting.found)
