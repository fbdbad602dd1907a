"""Signing and checks of archived events, in revisions that have signatures.

`benchmarks.against` runs `benchmarks.archive` of this tree on an earlier revision too.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from itertools import groupby
from operator import attrgetter
from typing import Final

import pyarrow as pa

from broker.archive.table import events_to_batch
from broker.log.logged_event import LoggedEvent

#: Arrival of the first log's begin, ms since 1970.
_BEGIN_MS: Final = 1_795_158_000_000
_origin = attrgetter("origin")


class EventSigner:
    """The log of a node without neighbours, of which the archiver signs all events."""

    def __init__(self) -> None:
        self.origin = "0123456789abcdef"
        self._signer = None
        if find_spec("broker.archive.row_signing") is not None:
            from broker.event.origin import new_origin
            from broker.order_certificates.signing_key import SigningKey
            from broker.signatures.batch_signer import BatchSigner

            key = SigningKey.generate()
            self.origin = new_origin(_BEGIN_MS, key.public.raw)
            self._signer = BatchSigner(key, self.origin)

    def make_rows(self, events: Sequence[LoggedEvent]) -> pa.RecordBatch:
        """Return rows as the archiver makes them."""
        if self._signer is None:
            return events_to_batch(events)
        return events_to_batch(events, self._signer)


def check_events(events: Sequence[LoggedEvent]) -> None:
    """Check events as a node does that recovers them from the archive. Raises `BadSignature`."""
    if find_spec("broker.archive.row_signing") is not None:
        from broker.signatures import event_check

        for origin, run in groupby(events, key=_origin):
            event_check.check_events(origin, run, must_sign=True)
