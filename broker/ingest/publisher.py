"""A session's publications."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import attrs

from broker.dtd.fetch_hint import FetchHint
from broker.dtd.owner import of_account
from broker.event.envelope import SecurityLevel
from broker.identity import Identity
from broker.ingest.event_source import EventSource
from broker.ingest.submission import Part, Submission
from broker.wire.event_batch import Batch
from broker.wire.messages import NotPublished, Published


@attrs.define(eq=False)
class Publisher(EventSource):
    """Batches of one publisher on their way into the log."""

    identity: Identity
    incarnation: int
    send_answer: Callable[[Published | NotPublished], None]
    """Called once for every batch."""
    unreplicated_answers: deque[Published] = attrs.field(factory=deque)
    """Answers to durable batches that wait for a replica, and to batches behind these."""
    waiting: deque[Submission] = attrs.field(factory=deque)
    """The first one may be partly ingested."""
    resend_from: int | None = None
    """This batch must be sent again before a later one is accepted."""
    allowed_streams: dict[tuple[str, SecurityLevel], int] = attrs.field(factory=dict)
    """Rank by permitted stream and security level."""
    permitted_head: tuple[Identity, bytes] | None = None
    """The last document's bytes up to its ClientId, and the identity that may publish them."""
    carriage_version: object = None
    """`Carriage.version` for which `allowed_streams` holds."""

    @property
    def is_ready(self) -> bool:
        return bool(self.waiting) and not self.is_paused

    def fetch_hint(self, system_id: str) -> FetchHint:
        return FetchHint(system_id, owner=of_account(self.identity.account))

    def add_batch(self, batch: Batch) -> None:
        if not self.waiting:
            # Look-ups that failed earlier may succeed now.
            self.missing_types.clear()
        self.waiting.append(Submission(batch))

    def next_parts(self, max_documents: int) -> list[Part]:
        """Return at least one waiting part, and more up to `max_documents` together.

        A batch without documents counts as one.
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
        """Remove the first batch: batches are processed in order."""
        if self.waiting and self.waiting[0] is submission:
            self.waiting.popleft()
