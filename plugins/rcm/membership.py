"""The sites of a group at one site: changes in their place of the order, and from other lists."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

import msgspec
from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger

from broker.errors import (
    BrokerError,
    Closed,
    ConfigurationError,
    NotAllowed,
    NotInGroup,
    Overloaded,
    ProtocolError,
)
from broker.event.site_notice import SiteStatus
from broker.streams.contract import ITransportContext
from broker.transport.order import Stamp
from plugins.rcm.effects import DeliverMessage
from plugins.rcm.options import MOST_SITES
from plugins.rcm.site_change import decode_change, encode_change
from plugins.rcm.site_file import SiteFile
from plugins.rcm.site_links import RETRY_SECONDS, SiteLinks
from plugins.rcm.site_list import MOST_AHEAD, Change, Records, SiteList, SiteRecord

#: Changes of operators that have not been delivered.
MOST_WAITING = 32


class IMembershipUser(Protocol):
    """The transport."""

    def send_change(self, data: bytes) -> None:
        """Send a message through the order."""

    def sites_changed(self, gone: Collection[str]) -> None:
        """Let the list of sites count from now on. The links to `gone` are ended."""

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
        notify: Callable[[SiteStatus], object],
    ) -> None:
        """`notify` gets new statuses of sites.

        Raises `ConfigurationError` for a damaged file, `OSError` if it can not be written.
        """
        self.changes = 0
        """Times at which the list has changed."""
        self.refused = 0
        """Links to nodes outside of the group that were ended."""
        self.node = context.node
        self._context = context
        self._own = context.node, incarnation
        self._file = SiteFile(context.folder)
        self._user = user
        self._waiting: deque[tuple[SiteRecord, Deferred[object]]] = deque()
        """Own changes that are not delivered."""
        self._is_failing = False
        self._has_connected = False
        """True if a site has accepted this one since the start."""
        self.sites, self._refusing = self._file.read(configured)
        self._wanted = self.sites
        self._file.write(self.sites, self._refusing)
        self.links = SiteLinks(context, self._others(), notify)
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

    def accepts(self, site: str) -> bool:
        """Return whether a link may connect this node and another one as sites of the group."""
        return self.is_member(site) and self.is_member(self.node)

    def check_log(self, site: str, origin: str) -> None:
        """Raises `NotAllowed` if a site names the log of another node as its own.

        Its messages would count for the events of that node.
        """
        if origin and not self._context.may_have_log(site, origin):
            raise NotAllowed(f"{site} names the log {origin}, which is not its own")

    def check_accepted(self, site: str) -> None:
        """Raises `NotAllowed` with the reason why a link may not connect."""
        if self.accepts(site):
            return
        name = self._context.instance
        self.refused += 1
        if self.refusal:
            raise NotAllowed(self.refusal)
        if self.sites.find(site) is not None:
            raise NotAllowed(f"{site} was removed from the group {name}")
        raise NotAllowed(
            f"{site} is no site of the group {name}: an operator of one admits it with "
            f"`xmlbroker order admit {name} {site} ADDRESS`"
        )

    @property
    def refusal(self) -> str:
        """Return the reason why this node is outside of the group; empty: it is a site."""
        group, own = self._context.instance, self.sites.find(self.node)
        cause, sites = f"was removed from the group {group}", ", ".join(self.sites.members)
        if self.is_member(self.node):
            if not self._refusing:
                return ""
            cause, sites = f"is not admitted to the group {group}", ", ".join(self._refusing)
        elif own is not None and own.is_member:
            cause = f"is beyond the {MOST_SITES} sites of the group {group}"
        elif own is not None and own.change is not None:
            cause += f" by an operator of {own.change.site}"
        return f"this node {cause}; its sites: {sites}"

    def connect(self) -> None:
        """Record that a site has accepted this one."""
        self._has_connected = True
        self._set_refusing(())

    def _set_refusing(self, sites: Sequence[str]) -> None:
        if list(sites) != list(self._refusing):
            self._refusing = sites
            self._store()
            self._user.sites_changed(())

    # ----------------------------------------------------------------- changes

    def change(self, action: str, site: str, address: str) -> Deferred[object]:
        """Send a change through the order. Fires when it was delivered here."""
        if self.refusal:
            return fail(NotInGroup(self.refusal))
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
        before = [each.version for each, _ in self._waiting if each.name == site]
        version = max(self._wanted.version, *before, 0) + 1
        record = SiteRecord(site, address, action == "admit", None, version)
        if record.is_member:
            msgspec.structs.replace(record, version=0).check()
        return record

    def deliver(self, message: DeliverMessage) -> None:
        """Apply a change in its place of the order. Raises `ProtocolError`."""
        change = Change.of(message.id, message.stamp)
        record = decode_change(message.data, change)
        self._check_version(record.version)
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
        self._check_version(other.version)
        if self._wanted.is_unknown_to(site, other):
            # It takes over this list, and sends that then.
            return False
        own = self._wanted.find(self.node)
        is_configured = own is not None and own.change is None
        if is_configured and other.find(self.node) is None and not self._has_connected:
            # It was never admitted. A site of the group refuses the other list by `sites`.
            self._set_refusing(list(other.members))
            return False
        united = self._wanted.united(self.node, other)
        united.check_configured(other)
        self._wanted = united
        if not self._is_failing:
            self._apply()
        return self.sites == united

    def _check_version(self, version: int) -> None:
        if version > self._wanted.version + MOST_AHEAD:
            raise ProtocolError(f"the version {version} of the sites is too far ahead")

    def _apply(self) -> None:
        """Store the wanted list, then let it count."""
        before, wanted = self.sites.members, self._wanted
        if wanted == self.sites or not self._store():
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
            elif self.node in before and not self.is_member(self.node):
                self.links.leave_site(site)
                gone.append(site)
        self._user.sites_changed(gone)

    def _store(self) -> bool:
        """Return False if the disk fails; `_apply` is called again then."""
        own = self._wanted.find(self.node)
        if own is None or own.change is not None:
            self._refusing = ()
        try:
            self._file.write(self._wanted, self._refusing)
        except OSError as error:
            if not self._is_failing:
                self.log.warn("the list of sites can not be written: {error}", error=error)
                self._is_failing = True
                self._context.clock.callLater(RETRY_SECONDS, self._retry)
            return False
        return True

    def _retry(self) -> None:
        self._is_failing = False
        if not self.links.is_closed and self._store():
            self._apply()

    def close(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        for _, delivered in waiting:
            delivered.errback(Closed("the stack has stopped; the change may be lost"))
        self.links.close()

    def snapshot(self) -> dict[str, object]:
        return {
            "site_changes": self.changes,
            "left": self.sites.left,
            "refused_links": self.refused,
        }
