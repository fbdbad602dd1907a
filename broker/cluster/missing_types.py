"""Types of other nodes' events whose DTD is not here yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from twisted.internet.defer import DeferredList
from twisted.python.failure import Failure

from broker.cluster.ingest_job import OriginQueue
from broker.cluster.relayed_entry import claimed_header
from broker.cluster.traffic.frame import Frame, FrameEvent
from broker.cluster.types.awaited_announcements import AwaitedAnnouncements
from broker.dtd.fetch_hint import FetchHint
from broker.dtd.interfaces import IDtdCache
from broker.dtd.owner import of_node
from broker.dtd.reference import DtdReference
from broker.errors import BrokerError, OurError, UnknownType
from broker.ingest.pending_dtds import PendingDtds
from broker.matching.contract import Accepted, Refused, Verdict
from broker.transport.clock import IClock

#: Seconds that an origin's events wait for a DTD. Then the events of that type are logged as
#: undecided, and the others continue.
LOOKUP_WAIT: Final = 1.0


class MissingTypes:
    """Looks up DTDs. Events of the origin wait for them, but only briefly."""

    def __init__(
        self,
        dtds: IDtdCache,
        pending_dtds: PendingDtds,
        clock: IClock,
        *,
        announcements: AwaitedAnnouncements,
        accept_undescribed: bool,
    ) -> None:
        """`announcements` knows the announced texts of other nodes. With `accept_undescribed`,
        events without a DTD are accepted, so they wait for the end of the look-up."""
        self._dtds = dtds
        self._pending_dtds = pending_dtds
        self._clock = clock
        self._announcements = announcements
        self._accept_undescribed = accept_undescribed

    def look_up_types(
        self,
        queue: OriginQueue,
        frame: Frame,
        unknown: Mapping[DtdReference, str],
        go_on: Callable[[], object],
    ) -> None:
        """Look up types, given the pointers of events. `go_on` is called once.

        Then `queue.missing_types` has the types that were not found.
        """
        owner = of_node(frame.origin_node.node)
        hints = {
            reference: FetchHint(pointer, frame.origin_node, owner=owner)
            for reference, pointer in unknown.items()
        }
        over = False

        def missing(failure: Failure, reference: DtdReference) -> None:
            error = failure.value
            if not isinstance(error, BrokerError):
                error = UnknownType(f"{reference.type} {reference.version}: {error}")
            queue.missing_types[reference] = error

        def end(_: object = None) -> None:
            nonlocal over
            if over:
                return
            over = True
            for reference, hint in hints.items():
                if self._dtds.get(reference) is None:
                    timed_out = UnknownType(f"the look-up of the DTD for {reference} has not ended")
                    error = queue.missing_types.setdefault(reference, timed_out)
                    if not self._accept_undescribed and not isinstance(error, OurError):
                        self._pending_dtds.request(reference, hint)
            go_on()

        if all(reference in self._pending_dtds for reference in hints):
            # Earlier events of these types have waited already.
            end()
            return
        if not self._accept_undescribed:
            self._clock.callLater(LOOKUP_WAIT, end)
        DeferredList(
            [
                self._dtds.lookup(reference, hint).addErrback(missing, reference)
                for reference, hint in hints.items()
            ]
        ).addCallback(end)

    def wait_for_announcements(
        self,
        frame: Frame,
        carried: Sequence[FrameEvent],
        verdicts: Sequence[Verdict],
        go_on: Callable[[], object],
    ) -> bool:
        """Return whether `go_on` will be called once these types are announced.

        Until then the verdicts may not use the origin's texts.
        """
        types = {
            (v.header.type_name, v.header.version) for v in verdicts if isinstance(v, Accepted)
        }
        if Refused in set(map(type, verdicts)):
            headers = (
                claimed_header(each)
                for each, verdict in zip(carried, verdicts, strict=False)
                if isinstance(verdict, Refused)
            )
            types |= {(header.type_name, header.version) for header in headers}
        return self._announcements.wait_for(frame.origin, frame.origin_node, types, go_on)

    def find_undecided(
        self,
        verdicts: Sequence[Verdict],
        passed_over: frozenset[DtdReference],
        variants: Mapping[DtdReference, DtdReference],
    ) -> list[int]:
        """Return the indices of events that were accepted without their DTD."""
        if not passed_over or self._accept_undescribed:
            return []
        found = []
        for index, verdict in enumerate(verdicts):
            if isinstance(verdict, Accepted):
                header = verdict.header
                reference = DtdReference(header.type_name, header.version)
                reference = variants.get(reference, reference)
                if reference in passed_over and self._dtds.get(reference) is None:
                    found.append(index)
        return found
