"""A client as a leaf of a mesh: its ticket, and its connections (DCP D5, T41)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Protocol, cast

import msgpack
import msgspec
from msgspec import Meta

from broker.client.effects import Effect
from broker.client.loop import Loop
from broker.client.mesh_feeds import MeshFeeds
from broker.client.mesh_splice import MeshRange, MeshSplice, SpliceState
from broker.client.received import ReceivedEvent
from broker.client.settings import ClientSettings
from broker.client.subscription import Subscription
from broker.errors import (
    BrokerError,
    ConfigurationError,
    NoMesh,
    ProtocolError,
    VersionMismatch,
)
from broker.event.place import Mark, Place
from broker.event.record import split_record
from broker.event.stream import StreamPattern
from broker.log.logged_event import header_from_fields
from broker.matching.query.limits import NO_LIMITS
from broker.matching.query.namespaces import DEFAULT
from broker.matching.query.query import parse_query
from broker.streams.contract import CarriedEvent, CarriedInterest, FlowBatch, ITransportPlugin
from broker.streams.leaf_contract import ILeaf, ILeafPlugin, LeafContext, LeafRequest
from broker.streams.ticket import (
    MOST_TICKET_BYTES,
    PROOF_BYTES,
    TICKET_REQUEST,
    ClientTicket,
)
from broker.transport.deadline_timer import DeadlineTimer
from broker.transport.stacks import find_plugin
from broker.wire.messages import HOLD_VERSION, Welcome

MOST_PARENTS: Final = 8
#: Seconds until a refused renewal is tried again.
_RETRY_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)


class MeshTicket(msgspec.Struct):
    """The node's answer to a request for a ticket."""

    stack: str
    use: str
    """Name of the plug-in."""
    patterns: Annotated[tuple[str, ...], Meta(min_length=1, max_length=64)]
    ticket: Annotated[bytes, Meta(max_length=MOST_TICKET_BYTES)]
    seconds: Annotated[float, Meta(ge=1)]
    mesh: Mapping[str, Any]
    proof_key: Annotated[bytes, Meta(max_length=PROOF_BYTES)] = b""
    """Empty from a node of an earlier version, whose routers accept this client no more."""

    @property
    def of_client(self) -> ClientTicket:
        return ClientTicket(self.ticket, self.proof_key)

    @classmethod
    def from_answer(cls, content: object) -> MeshTicket:
        """Raises `ProtocolError`."""
        try:
            return msgspec.convert(content, cls)
        except msgspec.ValidationError as error:
            raise ProtocolError(f"the node's answer to {TICKET_REQUEST}: {error}") from None


class IMeshClient(Protocol):
    """The client of a membership."""

    @property
    def welcome(self) -> Welcome | None: ...

    def ask(self, what: str, /, **arguments: str) -> Awaitable[Any]: ...

    @property
    def meshes(self) -> MeshFeeds: ...

    def apply_effects(self, effects: Sequence[Effect]) -> object: ...

    def ask_with(
        self,
        what: str,
        arguments: Mapping[str, str],
        on_answer: Callable[[object, BrokerError | None], object],
    ) -> None:
        """Ask the node, also a later one. Exactly one answer comes, or none after the end."""


async def request_ticket(client: IMeshClient, streams: str, parents: int) -> MeshTicket:
    """Return a ticket for streams. Raises `BrokerError`."""
    if not 1 <= parents <= MOST_PARENTS:
        raise ConfigurationError(f"a client has 1 to {MOST_PARENTS} parents, not {parents}")
    answer = await client.ask(TICKET_REQUEST, streams=streams)
    if client.welcome is not None and client.welcome.version < HOLD_VERSION:
        raise VersionMismatch("the node is too old for clients in a mesh")
    ticket = MeshTicket.from_answer(answer)
    if not ticket.proof_key:
        raise VersionMismatch("the node is too old for clients in a mesh")
    return ticket


def join_mesh(
    client: IMeshClient,
    loop: Loop,
    settings: ClientSettings,
    subscription: Subscription,
    namespaces: Mapping[str, str],
    ticket: MeshTicket,
    parents: int,
) -> MeshMembership:
    """Let a mesh bring the events of a subscription. Raises `BrokerError`."""
    interest = make_interest(subscription.streams, subscription.query, namespaces)
    return MeshMembership(client, loop, settings, subscription.number, interest, ticket, parents)


def make_interest(streams: str, query: str, namespaces: Mapping[str, str]) -> CarriedInterest:
    """Return the interest that routers get. Raises `BrokerError`."""
    pattern = StreamPattern.parse(streams)
    if DEFAULT in namespaces:
        # Routers of earlier versions have no default namespace.
        parsed = parse_query(query, namespaces, NO_LIMITS)
        query, namespaces = parsed.text, dict(parsed.namespaces)
    return CarriedInterest(pattern, query, dict(namespaces))


class MeshMembership:
    """Membership of one subscription in a mesh (`ILeafOwner`, `IMesh`)."""

    def __init__(
        self,
        client: IMeshClient,
        loop: Loop,
        settings: ClientSettings,
        number: int,
        interest: CarriedInterest,
        ticket: MeshTicket,
        parents: int,
    ) -> None:
        """Join. Raises `BrokerError` if the plug-in is not installed, or the mesh not usable."""
        self.malformed = 0
        """Batches that could not be read."""
        self._client = client
        self._loop = loop
        self._number = number
        self._streams = interest.pattern.text
        self._stack = ticket.stack
        self._timer = DeadlineTimer(loop.clock, self._request_ticket)
        self._is_over = False
        self._leaf: ILeaf | None = None
        plugin = find_plugin(ITransportPlugin, ticket.use)
        if not ILeafPlugin.providedBy(plugin):
            raise NoMesh(f"the installed stack {ticket.use!r} takes no clients")
        self._splice = client.meshes.add(number, ticket.patterns)
        request = LeafRequest(
            name=f"{settings.client_id}#{number}",
            stack=ticket.stack,
            patterns=ticket.patterns,
            description=ticket.mesh,
            ticket=ticket.of_client,
            interest=interest,
            parents=parents,
        )
        context = LeafContext(
            open_port=loop.open_port,
            clock=loop.clock,
            random=settings.random,
            wall_clock=settings.wall_clock,
        )
        try:
            self._leaf = cast(ILeafPlugin, plugin).join(request, context, self)
        except OSError as error:
            raise NoMesh(f"no UDP port for the mesh {ticket.stack}: {error.strerror}") from None
        self._renew_after(ticket.seconds / 2)

    @property
    def parents(self) -> Sequence[str]:
        """Names of the parents that send events."""
        return () if self._leaf is None else self._leaf.parents

    @property
    def splice(self) -> MeshSplice:
        return self._splice

    @property
    def events(self) -> int:
        return self._splice.events

    @property
    def is_alone(self) -> bool:
        return self._splice.state is SpliceState.HELD

    def end(self) -> None:
        self._is_over = True
        self._timer.arm(None)
        if self._leaf is not None:
            self._leaf.leave()

    # ------------------------------------------------------------------ the ticket

    def _renew_after(self, seconds: float) -> None:
        self._timer.arm(self._loop.clock.seconds() + seconds)

    def _request_ticket(self) -> None:
        self._client.ask_with(TICKET_REQUEST, {"streams": self._streams}, self._receive_answer)

    def _receive_answer(self, content: object, error: BrokerError | None) -> None:
        if self._is_over or self._leaf is None:
            return
        try:
            if error is not None:
                raise error
            ticket = MeshTicket.from_answer(content)
            if ticket.stack != self._stack:
                raise NoMesh(f"another mesh carries streams {self._streams}: {ticket.stack}")
        except BrokerError as problem:
            # The session brings the events when the present ticket has expired.
            _log.warning("the ticket for the mesh %s is not renewed: %s", self._stack, problem)
            self._renew_after(_RETRY_SECONDS)
            return
        self._leaf.renew(ticket.of_client)
        self._renew_after(ticket.seconds / 2)

    # ------------------------------------------------------------------ from the leaf

    def mesh_joined(self, marks: Mapping[str, Mark]) -> None:
        now = self._loop.clock.seconds()
        self._client.apply_effects(self._client.meshes.mesh_joined(self._number, marks, now))

    def mesh_lost(self, reason: str) -> None:
        _log.warning("no parent is left in the mesh %s%s", self._stack, reason and f": {reason}")
        now = self._loop.clock.seconds()
        self._client.apply_effects(self._client.meshes.mesh_lost(self._number, now))

    def receive_batch(self, batch: FlowBatch) -> None:
        try:
            events = [_read_event(batch.flow, each) for each in batch.events]
        except (ValueError, TypeError, LookupError, msgpack.UnpackException):
            # The next batch does not continue the position: the session brings the events.
            self.malformed += 1
            return
        if batch.is_late:
            self._client.apply_effects(self._client.meshes.report_left_out(self._number, events))
            return
        size = sum(len(each.record) + len(each.document) for each in batch.events)
        range_ = MeshRange(batch.flow, batch.after, batch.upto, events, size)
        now = self._loop.clock.seconds()
        self._client.apply_effects(self._client.meshes.receive_range(self._number, range_, now))


def _read_event(flow: str, event: CarriedEvent) -> ReceivedEvent:
    """Raises ValueError, TypeError, LookupError or `msgpack.UnpackException`."""
    record, _, _ = split_record(event.record)
    header = header_from_fields(msgpack.unpackb(record, use_list=False))
    return ReceivedEvent(Place(flow, *event.mark), header, header.liveness, event.document)
