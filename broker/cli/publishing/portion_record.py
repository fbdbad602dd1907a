"""Record of the events, files and fetches that one run has published.

An event is recorded after its durable receipt, a portion (a file, an answer to a fetch) after the
receipts of all its events. So the events without a record are published once more after a kill, and
none is lost.
"""

from __future__ import annotations

import attrs

from broker.cli.publishing.publication import PortionEnd
from broker.cli.publishing.published_table import PublishedTable


@attrs.define
class Portion:
    accepted: int = 0
    refused: int = 0
    unsettled: int = 0
    has_keys: bool = False
    is_unconfirmed: bool = False
    end: PortionEnd | None = None
    """None while items may follow."""

    @property
    def is_done(self) -> bool:
        """False as well if the next process is to read it again, which repeats no event."""
        if self.end is None or self.unsettled or self.is_unconfirmed:
            return False
        return not self.refused or (self.accepted > 0 and not self.has_keys)


class PortionRecord:
    """Without a table nothing is recorded. Methods raise `TableUnavailable`."""

    def __init__(self, table: PublishedTable | None) -> None:
        self._table = table
        self._portion = Portion()
        self._under_way: set[bytes] = set()
        """Keys of events without an answer; as many as such events."""

    def is_known(self, key: bytes | None) -> bool:
        """Return True if an event with the key is published or under way."""
        if key is None or self._table is None:
            return False
        self._portion.has_keys = True
        return key in self._under_way or self._table.find(key) is not None

    def begin_event(self, key: bytes | None) -> Portion:
        """Return the portion to which the event belongs."""
        if key is not None:
            self._under_way.add(key)
        self._portion.unsettled += 1
        return self._portion

    def accept_event(self, key: bytes | None, portion: Portion) -> None:
        self._under_way.discard(key or b"")
        portion.accepted += 1
        if key is not None and self._table is not None:
            self._table.record(key)
        self._settle_event(portion)

    def refuse_event(self, key: bytes | None, portion: Portion) -> None:
        self._under_way.discard(key or b"")
        portion.refused += 1
        self._settle_event(portion)

    def lose_event(self, portion: Portion) -> None:
        """Count an event without a receipt, which may be durable or not."""
        portion.is_unconfirmed = True
        self._settle_event(portion)

    def refuse_item(self) -> None:
        """Count an item that is not sent."""
        self._portion.refused += 1

    def end_portion(self, end: PortionEnd) -> None:
        portion, self._portion = self._portion, Portion()
        portion.end = end
        self._record_if_done(portion)

    def flush(self) -> None:
        if self._table is not None:
            self._table.flush()

    def _settle_event(self, portion: Portion) -> None:
        portion.unsettled -= 1
        self._record_if_done(portion)

    def _record_if_done(self, portion: Portion) -> None:
        end = portion.end
        if self._table is not None and end is not None and end.key is not None and portion.is_done:
            self._table.record(end.key, end.value)
