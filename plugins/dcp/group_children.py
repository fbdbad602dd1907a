"""The groups of a node's children: children with the same queries and clearance share one."""

from __future__ import annotations

from typing import Final

from broker.transport.arq.handshake import Entropy
from plugins.dcp.children import Child, Children
from plugins.dcp.connection import Connection
from plugins.dcp.control import MOST_GROUPS, Query
from plugins.dcp.group_host import IGroupHost
from plugins.dcp.group_sender import GroupSender
from plugins.dcp.settings import DcpSettings

#: Fewer gain nothing.
_LEAST_MEMBERS: Final = 2
#: Seconds before a child that did not hear its group, or lagged, becomes a member again.
_RETRY_SECONDS: Final = 60.0
_KEY_BYTES: Final = 32

#: Queries, and clearance.
_Kind = tuple[frozenset[Query], int]


class GroupChildren:
    def __init__(
        self, host: IGroupHost, settings: DcpSettings, children: Children, entropy: Entropy
    ) -> None:
        self.refused = 0
        """Groups beyond `MOST_GROUPS`, or without a socket: their children get unicast."""
        self.unreachable = 0
        """Members that did not hear their group, or lagged."""
        self._host = host
        self._settings = settings
        self._children = children
        self._entropy = entropy
        self._groups: dict[_Kind, GroupSender] = {}
        self._retries: dict[Connection, float] = {}
        """Times from which on children may be members again."""
        self._seen = -1
        """Value of `Children.changes` at the last look."""

    def prepare(self, now: float) -> None:
        """Form the groups, and announce their sequences. Call it before the connections send."""
        due = [each for each, retry_at in self._retries.items() if now >= retry_at]
        for connection in due:
            del self._retries[connection]
        if due or self._seen != self._children.changes:
            self._form()
        for group in self._groups.values():
            group.announce()

    def flush(self, now: float) -> None:
        """Send the packets of the groups."""
        for group in self._groups.values():
            for connection in group.take_unreachable(now):
                self.unreachable += 1
                self._retries[connection] = now + _RETRY_SECONDS
                self._children.leave_group(connection)
            packets = group.flush(now)
            if packets:
                self._host.send_to_group(group.number, packets)

    def next_timeout(self) -> float | None:
        times = [each.next_timeout() for each in self._groups.values()]
        found = [each for each in times if each is not None]
        return min([*found, *self._retries.values()], default=None)

    def _form(self) -> None:
        """Let all children that may share a group be its members."""
        self._seen = self._children.changes
        alike: dict[_Kind, list[Child]] = {}
        for child in self._children:
            if self._may_join(child):
                alike.setdefault((child.wanted, child.clearance), []).append(child)
        for kind, group in list(self._groups.items()):
            if len(alike.get(kind, ())) < _LEAST_MEMBERS:
                for child in alike.get(kind, ()):
                    child.leave_group()
                del self._groups[kind]
                self._host.close_group(group.number)
        self.refused = 0
        for kind, children in alike.items():
            if len(children) < _LEAST_MEMBERS:
                continue
            found = self._groups.get(kind) or self._open(kind)
            if found is None:
                self.refused += 1
                continue
            for child in children:
                if child.group is not found:
                    child.group = found
                    found.add(child.connection)

    def _may_join(self, child: Child) -> bool:
        connection = child.connection
        return (
            child.multicast == self._settings.multicast
            and child.has_settled
            and not child.is_client
            and connection not in self._retries
        )

    def _open(self, kind: _Kind) -> GroupSender | None:
        used = {each.number for each in self._groups.values()}
        id_ = int.from_bytes(self._entropy(4), "big") or 1
        # Parents begin at different addresses.
        numbers = [(id_ + each) % MOST_GROUPS for each in range(MOST_GROUPS)]
        number = next((each for each in numbers if each not in used), None)
        if number is None or not self._host.open_group(number):
            return None
        group = GroupSender(id_, number, self._entropy(_KEY_BYTES), self._settings)
        self._groups[kind] = group
        return group

    def snapshots(self) -> list[dict[str, object]]:
        """Return the state of each group."""
        return [each.snapshot() for each in self._groups.values()]

    def snapshot(self) -> dict[str, object]:
        return {
            "unreachable": self.unreachable,
            "refused": self.refused,
            "sent_to": self.snapshots(),
        }
