"""The list of a group's sites at one simulated site, which survives its process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from broker.transport.order import MessageId, Stamp

#: Place of the change that made a record; None for a site of the beginning.
Change: TypeAlias = tuple[Stamp, MessageId] | None
Record: TypeAlias = tuple[Change, bool]

#: Begins of the payloads of changes.
ADMIT, REMOVE = b"+", b"-"


#: Seconds after a change until a site sends its list: all have delivered the message by then.
SETTLING = 10.0


class SentList(NamedTuple):
    """The list of a site, for those that the message of a change has not reached."""

    records: Mapping[str, Record]


class Members:
    """The later change of a site counts."""

    def __init__(self, records: Mapping[str, Record]) -> None:
        self.records = dict(records)

    @classmethod
    def from_names(cls, names: Iterable[str]) -> Members:
        return cls(dict.fromkeys(names, (None, True)))

    def __contains__(self, name: str) -> bool:
        return self.records.get(name, (None, False))[1]

    def unite(self, records: Mapping[str, Record]) -> list[str]:
        """Take later changes, and return the sites that have joined or left."""
        before = {name for name in self.records if name in self}
        for name, record in records.items():
            change, known = record[0], self.records.get(name)
            if known is None or (change is not None and (known[0] is None or known[0] < change)):
                self.records[name] = record
        return sorted(before ^ {name for name in self.records if name in self})
