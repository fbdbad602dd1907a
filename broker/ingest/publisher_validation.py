"""Validation of published events by the policy of the node."""

from __future__ import annotations

from collections.abc import Sequence

from broker.dtd.reference import DtdReference
from broker.errors import InvalidEvent, NotValid, UnknownType
from broker.event.envelope import Validation
from broker.ingest.publisher import Publisher
from broker.ingest.validation_policy import ValidationPolicy
from broker.matching.contract import Accepted, IMatcher, Refused, Variants, Verdict
from broker.matching.prolog import PrologReader


class PublisherValidation:
    def __init__(self, matcher: IMatcher, policy: ValidationPolicy) -> None:
        self._matcher = matcher
        self._policy = policy
        self._prologs = PrologReader()

    def match(
        self,
        publisher: Publisher,
        documents: Sequence[bytes],
        variants: Variants,
        seconds: float,
    ) -> list[Verdict]:
        """Return the verdicts on the first documents, as `IMatcher.match`.

        Events without a DTD are refused where the stream does not take them. Invalid events are
        accepted with a mark if their type permits it.
        """
        holder = publisher.identity.holder
        verdicts: list[Verdict] = self._matcher.match(documents, seconds, variants, holder)
        if variants or self._policy.may_mark:
            for index, verdict in enumerate(verdicts):
                if isinstance(verdict, Accepted):
                    verdicts[index] = self._check_undescribed(publisher, verdict)
                elif isinstance(verdict, Refused) and self._may_mark(documents[index], verdict):
                    (verdicts[index],) = self._matcher.match(
                        [documents[index]], variants=variants, holder=holder, marked=True
                    )
        return verdicts

    def _check_undescribed(self, publisher: Publisher, verdict: Accepted) -> Verdict:
        header = verdict.header
        if header.validation is not Validation.UNDESCRIBED or self._policy.accepts_undescribed(
            header.type_name, header.stream
        ):
            return verdict
        reference = DtdReference(header.type_name, header.version)
        error = publisher.missing_types.get(reference)
        known = error if isinstance(error, UnknownType) else None
        return Refused(known or UnknownType(f"no DTD for {reference}"))

    def _may_mark(self, document: bytes, verdict: Refused) -> bool:
        if not self._policy.may_mark or not isinstance(verdict.error, NotValid):
            return False
        try:
            reference = self._prologs.read(document).reference
        except InvalidEvent:
            return False
        return reference is not None and self._policy.marks_invalid(reference.type)
