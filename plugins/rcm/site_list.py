"""The sites of a group: a value that two sites unite without a log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, NamedTuple, TypeAlias

import attrs
import msgspec

from broker.cluster.address import check_name
from broker.config.endpoints import tcp_address
from broker.errors import BadName, ConfigurationError, ProtocolError, VersionMismatch
from broker.transport.order import MessageId, Stamp
from plugins.rcm.options import MOST_SITES

#: Records of sites that have left, or are beyond `MOST_SITES`; those with earlier changes go.
MOST_LEFT = 32
#: A list whose version is that far above the own one is wrong: no change could follow the highest.
MOST_AHEAD = 1 << 32

_Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Change(NamedTuple):
    """The message that changed a record, in the order: later ones are higher."""

    time: _Number
    tie: _Name
    site: _Name
    incarnation: _Number
    number: _Number

    @classmethod
    def of(cls, id: MessageId, stamp: Stamp) -> Change:
        return cls(stamp.time, stamp.site, id.site, id.incarnation, id.number)

    @property
    def stamp(self) -> Stamp:
        return Stamp(self.time, self.tie)


class SiteRecord(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A site that is a member, or has left. Without a change it is from the configuration."""

    name: _Name
    address: Annotated[str, msgspec.Meta(max_length=300)]
    is_member: bool
    change: Change | None = None
    version: _Number = 0
    """One above all versions in the list of the operator's site; 0 without a change.

    A change that has seen another one is above it, wherever and however late that was delivered.
    """

    def check(self) -> None:
        """Raises `BadName` or `ConfigurationError`."""
        check_name(self.name)
        if (self.change is None) != (self.version == 0):
            raise ConfigurationError(f"the version of {self.name} is wrong")
        if self.is_member:
            try:
                tcp_address(self.address)
            except ValueError as wrong:
                raise ConfigurationError(f"the address of {self.name}: {wrong}") from None
        elif self.address or self.change is None:
            raise ConfigurationError(f"the record of {self.name}, which has left, is wrong")


#: Records as they are stored and sent.
Records: TypeAlias = Annotated[
    tuple[SiteRecord, ...], msgspec.Meta(max_length=MOST_SITES + MOST_LEFT)
]


@attrs.frozen
class SiteList:
    """Records by name. Of two records of one name the one with the higher version counts; with
    equal versions the one whose change is later in the order.

    Of more than `MOST_SITES` members those that were admitted first count. So two lists with the
    same records have the same members, in whatever sequence the records came.
    """

    _records: Mapping[str, SiteRecord]

    @classmethod
    def from_configuration(cls, sites: Mapping[str, str]) -> SiteList:
        return cls({name: SiteRecord(name, sites[name], True) for name in sorted(sites)})

    @classmethod
    def from_records(cls, records: Iterable[SiteRecord]) -> SiteList:
        """Raises `ProtocolError` for records that no site has made."""
        found: dict[str, SiteRecord] = {}
        for record in records:
            try:
                record.check()
            except (BadName, ConfigurationError) as wrong:
                raise ProtocolError(f"a list of sites: {wrong.text}") from None
            if record.name in found:
                raise ProtocolError(f"a list of sites has {record.name} twice")
            found[record.name] = record
        return cls(found)

    @property
    def records(self) -> tuple[SiteRecord, ...]:
        return tuple(self._records.values())

    @property
    def members(self) -> dict[str, str]:
        """Return the members with their addresses, by name."""
        members = [each for each in self.records if each.is_member]
        members.sort(key=_key)
        return {each.name: each.address for each in sorted(members[:MOST_SITES], key=_name)}

    @property
    def version(self) -> int:
        """Return the highest version of a record."""
        return max((each.version for each in self.records), default=0)

    @property
    def changes(self) -> list[Change]:
        return [each.change for each in self.records if each.change is not None]

    @property
    def left(self) -> list[str]:
        """Return the known names that are no members."""
        return sorted(self._records.keys() - self.members.keys())

    def find(self, name: str) -> SiteRecord | None:
        return self._records.get(name)

    def changed(self, record: SiteRecord) -> SiteList:
        """Return the list with a record, unless a later one of its name is there."""
        return self._with([record])

    def united(self, site: str, other: SiteList) -> SiteList:
        """Return the list of a site with the changes of another one's list.

        A site takes over the whole list that admits it. So does one that was removed there: what
        it has changed since does not count.
        """
        own, theirs = self.find(site), other.find(site)
        if theirs is None or theirs.change is None or (own and _key(own) >= _key(theirs)):
            return self._with(other._changed)
        is_configured = own is not None and own.change is None
        if own and own.is_member and theirs.is_member and not is_configured:
            # Its address has changed.
            return self._with(other._changed)
        # Both may name a configured site by an address of their own.
        known = {
            name: here
            if record.change is None and (here := self.find(name)) and here.change is None
            else record
            for name, record in other._records.items()
        }
        is_admitted = is_configured and theirs.is_member
        return SiteList(known)._with(self._changed if is_admitted else [])

    def is_unknown_to(self, site: str, other: SiteList) -> bool:
        """Return whether a site, by its own list, does not know its last change in this one."""
        known, theirs = self.find(site), other.find(site)
        if known is None or known.change is None:
            return False
        return theirs is None or _key(theirs) < _key(known)

    def check_configured(self, other: SiteList) -> None:
        """Check that a united list has the same configured sites as that of another site.

        Raises `VersionMismatch` with both values.
        """
        ours = [each.name for each in self.records if each.change is None]
        found = [each.name for each in other.records if each.change is None]
        found = [each for each in found if (one := self.find(each)) is None or one.change is None]
        if sorted(ours) != sorted(found):
            here, there = ", ".join(sorted(ours)), ", ".join(sorted(found))
            raise VersionMismatch(f"sites is {there} there and {here} here")

    @property
    def _changed(self) -> list[SiteRecord]:
        return [each for each in self.records if each.change is not None]

    def _with(self, records: Iterable[SiteRecord]) -> SiteList:
        found = dict(self._records)
        for record in records:
            known = found.get(record.name)
            if known is None or _key(known) < _key(record):
                found[record.name] = record
        members = SiteList(found).members
        left = sorted((each for each in found.values() if each.name not in members), key=_key)
        for record in left[: max(0, len(left) - MOST_LEFT)]:
            del found[record.name]
        return SiteList({name: found[name] for name in sorted(found)})


def _name(record: SiteRecord) -> str:
    return record.name


def _key(record: SiteRecord) -> tuple[int, Change, str, bool, str]:
    # The content is last: it makes the records of a site that lies unite, too.
    change = record.change or Change(0, "", "", 0, 0)
    return record.version, change, record.name, record.is_member, record.address
