"""A listening address of transports' links over connections, shared by instances."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import attrs
from twisted.internet.defer import Deferred

from broker.cluster.acceptor import MOST_LINK_HANDSHAKES_PER_HOST, Acceptor
from broker.cluster.address import NETWORK, Address
from broker.cluster.admission import AdmissionContext, AdmissionRules
from broker.cluster.descriptor import Endpoint, NodeDescriptor
from broker.cluster.handshake_core import Accepted, Refused
from broker.cluster.handshake_messages import LINKS, NodeHello
from broker.cluster.handshakes import Handshakes
from broker.config.key_file import read_key
from broker.config.network import NetworkSettings
from broker.errors import BrokerError, Closed, ProtocolError, StackMismatch
from broker.streams.contract import MOST_PEERS
from broker.transport.clock import IClock
from broker.transport.socket.contract import ISocketChannel, peer_host
from broker.transport.stacks import GroupAddress, Transport


class IConnectionSocket(Protocol):
    """A socket that accepts connections at an address, and makes connections from it."""

    @property
    def address(self) -> tuple[str, int]:
        """Address with the port that is bound."""

    def resolve(self, host: str, port: int) -> tuple[str, int]:
        """Return the address of a peer in its only spelling. Raises OSError for a host name."""

    def resolve_name(self, host: str) -> Deferred[str]:
        """Return an IP address of a host name, of the socket's family. Fails with `BrokerError`."""

    def dial(self, endpoint: Endpoint) -> Deferred[ISocketChannel]:
        """Connect to an address. The result can be cancelled."""

    def stop(self) -> None:
        """Accept no more. Connections stay."""


#: Binds host and port for TCP or UDP. Raises Twisted's `CannotListenError`.
OpenConnections = Callable[
    [str, int, Transport, Callable[[ISocketChannel], None]], IConnectionSocket
]

#: Returns the channel of a member of an IP multicast group. Raises `ConfigurationError`.
OpenGroup = Callable[[GroupAddress], ISocketChannel]


@attrs.frozen
class NodeIdentity:
    """Proof and admission of nodes, as for the links of the network."""

    network: str
    """Name of the network."""
    key: bytes | None = attrs.field(repr=False)
    node: Callable[[], NodeDescriptor]
    admission_context: Callable[[], AdmissionContext | None]
    """Returns the names that the network knows; None while the node is in no cluster."""

    @classmethod
    def from_settings(
        cls,
        settings: NetworkSettings,
        node: Callable[[], NodeDescriptor],
        admission_context: Callable[[], AdmissionContext | None],
    ) -> NodeIdentity:
        """Raises `ConfigurationError` for an unreadable key."""
        key = None if settings.key_file is None else read_key(settings.key_file)
        return cls(settings.name, key, node, admission_context)


class LinkUser(Protocol):
    """Links of one transport instance."""

    @property
    def nodes(self) -> Mapping[str, NodeDescriptor]:
        """Nodes with a link, by name."""

    def find_error(self, node: str, peer: Endpoint) -> BrokerError | None:
        """Return a reason to refuse a link to a node that listens at an address."""

    def connection_accepted(
        self, accepted: Accepted, channel: ISocketChannel, peer: Endpoint
    ) -> None:
        """Take a connection of a node that has proven its name."""


class ConnectionPort:
    """A listening address of links over connections, for several users.

    The handshake is that of nodes. Its purpose names the stack, by which users are told apart.
    """

    def __init__(
        self,
        identity: NodeIdentity,
        clock: IClock,
        wall_clock: Callable[[], int],
        transport: Transport,
        open_socket: Callable[[Callable[[ISocketChannel], None]], IConnectionSocket],
    ) -> None:
        self._identity = identity
        self._transport = transport
        # Users bound their links themselves.
        rules = AdmissionRules(MOST_PEERS, {transport.value: MOST_PEERS})
        acceptor: Acceptor[ISocketChannel] = Acceptor(
            rules, self._admission_context, MOST_LINK_HANDSHAKES_PER_HOST
        )
        self._handshakes = Handshakes(identity.network, identity.key, acceptor, clock, wall_clock)
        self.link_log = self._handshakes.link_log
        self._users: dict[str, LinkUser] = {}
        self.socket = open_socket(self._accept)

    @property
    def node(self) -> NodeDescriptor:
        """This node, as the other end of a link needs to know it."""
        node = self._identity.node()
        here = Endpoint(*self.socket.address)
        is_udp = self._transport is Transport.UDP
        return node._replace(
            # The cluster may change while the link lasts.
            address=Address(NETWORK, node.name),
            tcp=None if is_udp else here,
            udp=here if is_udp else None,
        )

    @property
    def failures(self) -> Mapping[str, int]:
        """Failed handshakes by error code."""
        return self._handshakes.failures

    @property
    def has_users(self) -> bool:
        return bool(self._users)

    def add_user(self, name: str, user: LinkUser) -> None:
        self._users[name] = user

    def remove_user(self, name: str) -> None:
        self._users.pop(name, None)

    def stop(self) -> None:
        self.socket.stop()
        self._handshakes.abort_all(Closed("the links of the stack are closed"))

    def begin_handshake(
        self,
        connection: Deferred[ISocketChannel],
        name: str,
        accepted: Callable[[Accepted, ISocketChannel], None],
        failed: Callable[[BrokerError], None],
    ) -> Callable[[BrokerError], None]:
        """Let the user with a name prove this node on a connection that it makes.

        Return a function that aborts it, as `Handshakes.dial`.
        """

        def refused(result: Refused) -> None:
            failed(result.error)

        core = self._handshakes.initiate(self.node, LINKS + name)
        return self._handshakes.dial(connection, core, accepted, refused, failed)

    def _accept(self, channel: ISocketChannel) -> None:
        def find_error(hello: NodeHello, host: str) -> BrokerError | None:
            user = self._find_user(hello.purpose)
            if user is None:
                here = ", ".join(sorted(LINKS + each for each in self._users))
                return StackMismatch(f"this address has {here}, not {hello.purpose}")
            peer = self._peer_of(hello.node, host)
            if peer is None:
                return ProtocolError("the hello names no listening address")
            return user.find_error(hello.node.name, peer)

        def accepted(result: Accepted, channel: ISocketChannel) -> None:
            user = self._find_user(result.purpose)
            peer = self._peer_of(result.peer, peer_host(channel))
            assert user is not None and peer is not None
            user.connection_accepted(result, channel, peer)

        transport = self._transport.value
        self._handshakes.accept(channel, self.node, transport, find_error, accepted)

    def _find_user(self, purpose: str) -> LinkUser | None:
        if not purpose.startswith(LINKS):
            return None
        return self._users.get(purpose.removeprefix(LINKS))

    def _peer_of(self, node: NodeDescriptor, host: str) -> Endpoint | None:
        """Return the address of a node that has connected from a host."""
        listens = node.udp if self._transport is Transport.UDP else node.tcp
        try:
            return listens and Endpoint(*self.socket.resolve(host, listens.port))
        except OSError:
            return None

    def _admission_context(self) -> AdmissionContext:
        linked = {name: node for user in self._users.values() for name, node in user.nodes.items()}
        context = self._identity.admission_context()
        if context is None:
            own = self._identity.node()
            return AdmissionContext(own, {**linked, own.name: own}, {}, {}, ())
        return attrs.evolve(context, members={**linked, **context.members}, links={})
