"""Services of a node for all its stream transports."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Protocol

from twisted.internet.defer import Deferred

from broker.config.stacks import StackInstance
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.matching.covering.stream_interest import StreamInterest
from broker.matching.query.query import Query
from broker.queue_memory import QueueMemory
from broker.streams.contract import CarriedEvent, ClusterFactory, FlowBatch, ILinkReceiver, ILinks
from broker.streams.group_contract import IGroup, OnGroupDatagrams
from broker.streams.link_key import ILinkInterest
from broker.streams.site_statuses import PassNotice
from broker.streams.ticket import TicketPolicy
from broker.transport.clock import IClock
from broker.transport.stacks import GroupAddress

if TYPE_CHECKING:
    from broker.order_certificates.signing_key import PinnedKeys, SigningKey


class NodeServices(Protocol):
    """Parts of the node that all its transports use."""

    @property
    def node(self) -> str: ...
    @property
    def origin(self) -> str: ...
    @property
    def signing_key(self) -> SigningKey: ...
    @property
    def public_keys(self) -> PinnedKeys: ...
    @property
    def clock(self) -> IClock: ...
    @property
    def random(self) -> Random: ...
    @property
    def wall_clock(self) -> Callable[[], int]: ...
    @property
    def queue_memory(self) -> QueueMemory: ...
    @property
    def folder(self) -> Path: ...
    @property
    def cluster(self) -> ClusterFactory: ...
    @property
    def link_interest(self) -> ILinkInterest: ...
    @property
    def own_end(self) -> Mark:
        """The newest place of the own log, committed or not."""

    def receive(self, batch: FlowBatch) -> bool:
        """Validate, log and deliver a received batch. Return False for an invalid range or flow."""

    def deliver(self, batch: FlowBatch) -> bool:
        """Log and deliver the next events of an ordered flow. Return False for other ones."""

    def release_ordered(self, patterns: Sequence[str]) -> None:
        """Log and deliver what a transport has not delivered: it has stopped."""

    def read_log_end(self, patterns: Sequence[str]) -> Deferred[Sequence[CarriedEvent]]:
        """Return delivered events of carrying patterns at the end of the log."""

    def coverage_of(self, flow: str) -> Mark:
        """Return the place up to which the log has a flow; (0, 0) for an unknown one."""

    def may_have_log(self, node: str, origin: str) -> bool:
        """Return False if the named node has another log, or another node has this one."""

    def must_prove_log(self, node: str, origin: str) -> bool:
        """Return True if only a signature can show that the named node has a log."""

    def release_earlier(self, patterns: Sequence[str]) -> Deferred[None]:
        """Deliver own withheld events of earlier processes. Fires when they are logged."""

    def find_group(self, pattern: StreamPattern) -> Sequence[str]:
        """Return the sites of a group that carries all streams of a pattern, if this node is none
        of them."""

    def carriage_version(self) -> int:
        """Return a number that changes with the groups that `find_group` knows."""

    def request_feed(self, patterns: Sequence[str]) -> None:
        """Let the network of clusters bring the flows of these patterns in frames, too."""

    def announce_interest(
        self,
        key: Hashable,
        interest: StreamInterest,
        on_active: Callable[[Mapping[str, Mark]], object],
    ) -> None:
        """Announce interest to the network of clusters under a key, or replace that of the key."""

    def withdraw_interest(self, key: Hashable) -> None:
        """Withdraw interest from the network of clusters."""

    def announce_all(self, patterns: Sequence[StreamPattern]) -> None:
        """Announce interest in these streams to the network that only transports have so far."""

    def is_agreed(self, patterns: Sequence[str]) -> bool:
        """Return whether no known node gives these carrying patterns to another transport."""

    def match(self, batch: FlowBatch) -> Sequence[Collection[Hashable]]:
        """Return the targets of each event."""

    def has_interest(self, instance: str, batch: FlowBatch) -> Sequence[bool]:
        """See `ITransportContext.has_interest`, of a named instance."""

    def open_links(self, stack: StackInstance, listen: str, receiver: ILinkReceiver) -> ILinks:
        """Open links over the link stack of an instance. Raises `ConfigurationError`."""

    def open_group(
        self, stack: StackInstance, address: GroupAddress, on_datagrams: OnGroupDatagrams
    ) -> IGroup:
        """See `IGroupContext`."""

    def find_addresses(self, name: str, port: int) -> Deferred[Sequence[tuple[str, int]]]:
        """Return the addresses of a name in DNS, with a port."""

    def open_client_links(
        self, stack: StackInstance, listen: str, receiver: ILinkReceiver
    ) -> ILinks:
        """Open links of an instance to clients. Raises `ConfigurationError`."""

    @property
    def ticket_key(self) -> bytes:
        """Key of `broker.streams.ticket`."""

    @property
    def ticket_policy(self) -> TicketPolicy: ...

    def parse_query(self, text: str, namespaces: Mapping[str, str]) -> Query:
        """Raises `BadQuery`."""

    @property
    def pass_notice(self) -> PassNotice: ...
