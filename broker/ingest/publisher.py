"""A session as the input component sees it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import attrs

from broker.dtd.reference import DtdReference
from broker.errors import BrokerError
from broker.event.envelope import SecurityLevel
from broker.identity import Identity
from broker.ingest.submission import Part, Submission
from broker.wire.event_batch import Batch
from broker.wire.messages import NotPublished, Published


@attrs.define(eq=False)
class Publisher:
    """One publisher's batches on their way into the log."""

    identity: Identity
    incarnation: int
    send_answer: Callable[[Published | NotPublished], None]
    """Called once for every batch."""
    on_released: Callable[[], None]
    """Called when what waited for a DTD waits for it no more: it is to be taken, in a later turn
    or in the one that is under way."""
    unreplicated_answers: deque[Published] = attrs.field(factory=deque)
    """Answers to batches that are durable here and yet to be so elsewhere, and to later ones."""
    waiting: deque[Submission] = attrs.field(factory=deque)
    """Of the first one a part may have been taken already."""
    awaits_dtd: bool = False
    """Whether what waits waits for a DTD."""
    resend_from: int | None = None
    """The batch that has to come again before any later one is taken."""
    allowed_streams: dict[tuple[str, SecurityLevel], int] = attrs.field(factory=dict)
    """Streams and security levels that it has the right for, with the rank of the level."""
    missing_types: dict[DtdReference, BrokerError] = attrs.field(factory=dict)
    """Types that could not be had for what waits, and why."""

    @property
    def is_ready(self) -> bool:
        """Whether a batch waits that can be taken now."""
        return bool(self.waiting) and not self.awaits_dtd

    def add_batch(self, batch: Batch) -> None:
        """A batch waits behind the others."""
        if not self.waiting:
            # What was missing for others may be there now.
            self.missing_types.clear()
        self.waiting.append(Submission(batch))

    def next_parts(self, max_documents: int) -> list[Part]:
        """What comes next: something if anything waits, and not more than `most` documents.

        A batch without documents counts as one, for it takes its time too.
        """
        parts: list[Part] = []
        for submission in self.waiting:
            if max_documents <= 0:
                break
            count = min(len(submission.batch.documents) - submission.appended, max_documents)
            parts.append(Part(submission, submission.appended, submission.appended + count))
            max_documents -= max(count, 1)
        return parts

    def remove_submission(self, submission: Submission) -> None:
        """A batch waits no more, if it did: all of it was taken, or what is left never will be.

        None before it is left, for batches are taken, and sent back, in their order.
        """
        if self.waiting and self.waiting[0] is submission:
            self.waiting.popleft()
