"""Waits of relayed events for the DTDs of their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.cluster.ingest_job import OriginQueue
from broker.cluster.relayed_entry import claimed_header
from broker.cluster.traffic.frame import Frame
from broker.cluster.types.awaited_announcements import AwaitedAnnouncements
from broker.dtd.interfaces import IDtdCache
from broker.dtd.reference import DtdReference
from broker.event.envelope import Validation
from broker.event.flow import origin_of
from broker.ingest.pending_dtds import PendingDtds
from broker.ingest.type_lookups import TypeLookups
from broker.log.logged_event import validation_of
from broker.matching.contract import Accepted, Refused, Verdict
from broker.streams.contract import CarriedEvent


class RelayedTypes:
    """Events of an origin wait briefly for their DTD and its announcement.

    Then the events of that type are logged as undecided, and the others continue.
    """

    def __init__(
        self,
        dtds: IDtdCache,
        pending_dtds: PendingDtds,
        *,
        announcements: AwaitedAnnouncements,
        accept_undescribed: bool,
    ) -> None:
        """With `accept_undescribed`, events wait for the end of the look-up."""
        self._dtds = dtds
        self._announcements = announcements
        self._accept_undescribed = accept_undescribed
        self._lookups = TypeLookups(dtds, None if accept_undescribed else pending_dtds)

    def must_wait(
        self,
        queue: OriginQueue,
        frame: Frame,
        events: Sequence[CarriedEvent],
        verdicts: Sequence[Verdict],
    ) -> bool:
        """Return True if the queue was paused, and these verdicts may not be used.

        It is resumed once the look-ups have ended, or the types are announced.
        """
        if self._lookups.start(queue, verdicts):
            return True
        # The origin announces no text for an undescribed event.
        types = {
            (v.header.type_name, v.header.version)
            for each, v in zip(events, verdicts, strict=False)
            if isinstance(v, Accepted)
            and not (
                v.header.validation is Validation.UNDESCRIBED
                and validation_of(each.record) is Validation.UNDESCRIBED
            )
        }
        if Refused in set(map(type, verdicts)):
            headers = (
                claimed_header(each)
                for each, verdict in zip(events, verdicts, strict=False)
                if isinstance(verdict, Refused)
            )
            types |= {(header.type_name, header.version) for header in headers}
        if self._announcements.wait_for(
            origin_of(frame.origin), frame.origin_node, types, queue.resume
        ):
            queue.pause()
            return True
        return False

    def find_undecided(
        self,
        events: Sequence[CarriedEvent],
        verdicts: Sequence[Verdict],
        passed_over: frozenset[DtdReference],
        variants: Mapping[DtdReference, DtdReference],
    ) -> list[int]:
        if not passed_over or self._accept_undescribed:
            return []
        found = []
        for index, (event, verdict) in enumerate(zip(events, verdicts, strict=False)):
            if (
                isinstance(verdict, Accepted)
                and validation_of(event.record) is not Validation.UNDESCRIBED
            ):
                header = verdict.header
                reference = DtdReference(header.type_name, header.version)
                reference = variants.get(reference, reference)
                if reference in passed_over and self._dtds.get(reference) is None:
                    found.append(index)
        return found
