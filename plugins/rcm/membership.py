"""The sites of a group at one site: changes in their place of the order, and from other lists."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from typing import Protocol

from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger

from broker.errors import (
    BrokerError,
    Closed,
    ConfigurationError,
    NotAllowed,
    Overloaded,
    ProtocolError,
)
from broker.streams.contract import ITransportContext
from broker.transport.order import Stamp
from plugins.rcm.effects import DeliverMessage
from plugins.rcm.options import MOST_SITES
from plugins.rcm.site_change import decode_change, encode_change
from plugins.rcm.site_file import SiteFile
from plugins.rcm.site_links import RETRY_SECONDS, SiteLinks
from plugins.rcm.site_list import Change, Records, SiteList, SiteRecord

#: Changes of operators that have not been delivered.
MOST_WAITING = 32


class IMembershipUser(Protocol):
    """The transport."""

    def send_change(self, data: bytes) -> None:
        """Send a message through the order."""

    def sites_changed(self, gone: Collection[str]) -> None:
        """Let the list of sites count from now on. `gone` have left."""

    def check_stamp(self, site: str, stamp: Stamp) -> None:
        """Raises `ProtocolError` for a stamp, named by a site, that is too far ahead."""


class Membership:
    """Keeps the list of sites. A change is on disk before it counts.

    While the disk fails, changes wait, and the list on disk counts.
    """

    log = Logger()

    def __init__(
        self,
        context: ITransportContext,
        incarnation: int,
        configured: Mapping[str, str],
        user: IMembershipUser,
    ) -> None:
        """Raises `ConfigurationError` for a damaged file, `OSError` if it can not be written."""
        self.changes = 0
        """Times at which the list has changed."""
        self.node = context.node
        self._context = context
        self._own = context.node, incarnation
        self._file = SiteFile(context.folder)
        self._user = user
        self._waiting: deque[tuple[SiteRecord, Deferred[object]]] = deque()
        """Own changes that are not delivered."""
        self._is_failing = False
        self.sites = self._wanted = self._file.read(configured)
        self._file.write(self.sites)
        self.links = SiteLinks(context, self._others())
        if configured.keys() != self.sites.members.keys():
            self.log.warn(
                "the sites of the stack {stack} are {sites}, by changes after its first start",
                stack=context.instance,
                sites=", ".join(self.sites.members),
            )

    def _others(self) -> dict[str, str]:
        members = self.sites.members
        return {site: members[site] for site in members if site != self.node}

    def is_member(self, site: str) -> bool:
        return site in self.sites.members

    def check_known(self, site: str) -> None:
        """Raises `NotAllowed` for a node that is no site, and was none."""
        if self.sites.find(site) is None:
            name = self._context.instance
            raise NotAllowed(
                f"{site} is no site of the group {name}: an operator of one admits it with "
                f"`xmlbroker order admit {name} {site} ADDRESS`"
            )

    def check_own(self) -> None:
        """Raises `NotAllowed` if this site has left."""
        if self.is_member(self.node):
            return
        own = self.sites.find(self.node)
        cause = f"was removed from the group {self._context.instance}"
        if own is not None and own.is_member:
            cause = f"is beyond the {MOST_SITES} sites of the group {self._context.instance}"
        elif own is not None and own.change is not None:
            cause += f" by an operator of {own.change.site}"
        raise NotAllowed(f"this node {cause}; its sites: {', '.join(self.sites.members)}")

    # ----------------------------------------------------------------- changes

    def change(self, action: str, site: str, address: str) -> Deferred[object]:
        """Send a change through the order. Fires when it was delivered here."""
        try:
            record = self._make_record(action, site, address)
        except BrokerError as error:
            return fail(error)
        delivered: Deferred[object] = Deferred()
        self._waiting.append((record, delivered))
        self._user.send_change(encode_change(record))
        return delivered

    def _make_record(self, action: str, site: str, address: str) -> SiteRecord:
        """Raises `BrokerError`."""
        members = self.sites.members
        if action == "remove" and site not in members:
            raise ConfigurationError(f"{site} is not one of the sites: {', '.join(members)}")
        if action == "admit" and len(members) >= MOST_SITES and site not in members:
            raise Overloaded(f"the group has {MOST_SITES} sites")
        if len(self._waiting) >= MOST_WAITING:
            raise Overloaded(f"{MOST_WAITING} changes of the sites wait for their places")
        record = SiteRecord(site, address, action == "admit")
        if record.is_member:
            record.check()
        return record

    def deliver(self, message: DeliverMessage) -> None:
        """Apply a change in its place of the order."""
        change = Change.of(message.id, message.stamp)
        try:
            record = decode_change(message.data, change)
        except ProtocolError as error:
            # It was checked when it came.
            self.log.warn("a change of the sites is wrong: {error}", error=error)
            return
        self._wanted = self._wanted.changed(record)
        self._apply()
        if (change.site, change.incarnation) == self._own and self._waiting:
            _, delivered = self._waiting.popleft()
            delivered.callback(self._describe_change(record))

    def _describe_change(self, record: SiteRecord) -> dict[str, object]:
        return {
            "stack": self._context.instance,
            "site": record.name,
            "applied": self.sites.find(record.name) == record,
            "sites": self.sites.members,
        }

    def learn(self, site: str, records: Records) -> bool:
        """Unite this list with that of a site. Return True when the result counts here.

        Raises `ProtocolError` for a wrong list, and `VersionMismatch` for another configuration.
        """
        other = SiteList.from_records(records)
        for change in other.changes:
            self._user.check_stamp(site, change.stamp)
        united = self._wanted.united(self.node, other)
        united.check_configured(site, other)
        self._wanted = united
        if not self._is_failing:
            self._apply()
        return self.sites == united

    def _apply(self) -> None:
        """Store the wanted list, then let it count."""
        before, wanted = self.sites.members, self._wanted
        if wanted == self.sites:
            return
        try:
            self._file.write(wanted)
        except OSError as error:
            if not self._is_failing:
                self.log.warn("the list of sites can not be written: {error}", error=error)
                self._is_failing = True
                self._context.clock.callLater(RETRY_SECONDS, self._retry)
            return
        self.sites = wanted
        self.changes += 1
        after = self._others()
        gone = [site for site in before if site in self.links and site not in after]
        for site in gone:
            self.links.remove_site(site)
        for site, address in after.items():
            if before.get(site) != address:
                self.links.add_site(site, address)
        self._user.sites_changed(gone)
        if not self.is_member(self.node):
            self._context.clock.callLater(0.0, self._leave)

    def _retry(self) -> None:
        self._is_failing = False
        if not self.links.is_closed:
            self._apply()

    def _leave(self) -> None:
        try:
            self.check_own()
        except NotAllowed as error:
            if not self.links.is_closed:
                self._context.fail(error)

    def close(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        for _, delivered in waiting:
            delivered.errback(Closed("the stack has stopped; the change may be lost"))
        self.links.close()

    def snapshot(self) -> dict[str, object]:
        return {"site_changes": self.changes, "left": self.sites.left}
