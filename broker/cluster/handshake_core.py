"""Both sides of a greeting, as state machines (Mspaces G3, T41, T43).

Messages and time go in, effects come out. The last effect of a greeting is `Accepted` or `Refused`,
and it comes once; after `Refused` the connection is closed when what was sent has left.
"""

from __future__ import annotations

import enum
import secrets
from collections.abc import Callable
from typing import TypeAlias

import attrs

from broker.cluster.address import UnitPath
from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.handshake_messages import (
    MAGIC,
    NONCE_BYTES,
    Alternative,
    NodeChallenge,
    NodeHello,
    NodeProof,
    NodeRefuse,
    NodeWelcome,
    initiator_proof,
    proofs_equal,
    responder_proof,
)
from broker.cluster.messages import Message
from broker.errors import (
    AuthenticationFailed,
    BrokerError,
    NameTaken,
    PeerSilent,
    ProtocolError,
    VersionMismatch,
    WrongNetwork,
    from_wire,
)

#: Seconds for the whole greeting: some round trips, and a busy node.
HANDSHAKE_TIMEOUT = 10.0

# ----------------------------------------------------------------------------- effects


@attrs.frozen
class Send:
    """Send this to the peer."""

    message: Message


@attrs.frozen
class Accepted:
    """The link is up."""

    peer: NodeDescriptor
    """For a new member its address is in the cluster now, and it has its time of admission."""
    trusted: bool
    """The peer has proven who it is: by the shared key, or by its certificate."""
    version: int
    purpose: str
    members: tuple[NodeDescriptor, ...] = ()
    """On the dialling side: those known in the cluster."""
    admitted: int = 0
    """On the dialling side: when this node came to be a member."""


@attrs.frozen
class Refused:
    """There will be no link."""

    error: BrokerError
    alternatives: tuple[Alternative, ...] = ()
    """Whom the peer names instead."""
    cluster: UnitPath = ()
    """The cluster of the peer that refuses, if it has told."""
    by_peer: bool = False


Effect: TypeAlias = Send | Accepted | Refused

# ----------------------------------------------------------------------------- decisions


@attrs.frozen
class Admission:
    """The answering node's decision: the peer is accepted."""

    peer: NodeDescriptor
    """As it is from now on."""
    members: tuple[NodeDescriptor, ...] = ()


@attrs.frozen
class Refusal:
    """The answering node's decision: it is not."""

    error: BrokerError
    alternatives: tuple[Alternative, ...] = ()


#: Judges what is wanted, once it is known whether the peer is trusted: `broker.cluster.admission`.
DecideAdmission: TypeAlias = Callable[[NodeHello, bool], Admission | Refusal]


class HandshakeState(enum.Enum):
    """How far a greeting is."""

    NEW = enum.auto()
    """Dialling: nothing was sent. Answering: nothing has come."""
    HELLO_SENT = enum.auto()
    """Dialling: the hello was sent."""
    PROVING = enum.auto()
    """Dialling: the proof was sent. Answering: the challenge was sent."""
    ENDED = enum.auto()


@attrs.define
class _HandshakeCore:
    """What both sides share: the state, the deadline, and how it ends."""

    node: NodeDescriptor
    network: str
    key: bytes | None = attrs.field(repr=False)
    """The key that all nodes of the network share; None: nobody is asked for a proof."""
    state: HandshakeState = attrs.field(default=HandshakeState.NEW, init=False)
    _deadline: float | None = attrs.field(default=None, init=False)
    certified_name: Callable[[], str] = attrs.field(default=lambda: "", init=False)
    """The name in the peer's certificate, where both sides of the connection below ask for one."""

    def next_timeout(self) -> float | None:
        """When `handle_timeout` is due, in monotonic seconds; None: never."""
        return self._deadline

    def handle_timeout(self, now: float) -> list[Effect]:
        """The peer has been silent for too long."""
        if self._deadline is None or now < self._deadline:
            return []
        return self._refuse(PeerSilent(f"no greeting within {HANDSHAKE_TIMEOUT:g} s{self._hint()}"))

    def reject_malformed(self, error: ProtocolError) -> list[Effect]:
        """What came was no message at all."""
        return [] if self.state is HandshakeState.ENDED else self._refuse(error)

    def connection_lost(self, why: str = "") -> list[Effect]:
        """The connection is gone."""
        if self.state is HandshakeState.ENDED:
            return []
        reason = f": {why}" if why else self._hint()
        return self._end(Refused(PeerSilent(f"the connection was lost in the greeting{reason}")))

    def _hint(self) -> str:
        """What a person may look at where the peer has said nothing at all."""
        return ""

    def _end(self, *effects: Effect) -> list[Effect]:
        self.state = HandshakeState.ENDED
        self._deadline = None
        return list(effects)

    def _refuse(
        self,
        error: BrokerError,
        alternatives: tuple[Alternative, ...] = (),
        cluster: UnitPath = (),
    ) -> list[Effect]:
        refusal = Send(NodeRefuse(error.to_wire(), cluster, alternatives))
        return self._end(refusal, Refused(error, alternatives))

    def _refused_by_peer(self, refuse: NodeRefuse) -> list[Effect]:
        error = from_wire(refuse.error)
        return self._end(Refused(error, refuse.alternatives, refuse.cluster, by_peer=True))

    def _is_trusted(self) -> bool:
        return self.key is not None or bool(self.certified_name())

    def _check_certificate(self, node: NodeDescriptor) -> AuthenticationFailed | None:
        """Whether the peer is another node than its certificate says."""
        name = self.certified_name()
        if name in ("", node.name):
            return None
        return AuthenticationFailed(f"{node.name} has the certificate of {name}")

    def _reject_out_of_state(self, message: Message) -> list[Effect]:
        name = type(message).__name__
        return self._refuse(ProtocolError(f"{name} while the greeting is {self.state.name}"))


# ----------------------------------------------------------------------------- the two sides


@attrs.define
class Initiator(_HandshakeCore):
    """The side that made the connection, and greets first."""

    purpose: str
    cluster: UnitPath = ()
    """What a link is wanted to: a cluster, or any in this unit."""
    expected_name: str = ""
    """The node that must answer; empty: whoever does."""
    nonce: bytes = attrs.field(factory=lambda: secrets.token_bytes(NONCE_BYTES))
    _challenge: NodeChallenge | None = attrs.field(default=None, init=False)

    def hello(self) -> NodeHello:
        """What this side says first."""
        return NodeHello(
            *(MAGIC, self.node.versions, self.network, self.node),
            *(self.purpose, self.cluster, self.nonce),
        )

    def start(self, now: float) -> list[Effect]:
        """The connection is there."""
        self.state = HandshakeState.HELLO_SENT
        self._deadline = now + HANDSHAKE_TIMEOUT
        return [Send(self.hello())]

    def receive_message(self, message: Message, now: float) -> list[Effect]:
        """The peer has answered. After the end nothing is heard any more."""
        match message, self.state:
            case _, HandshakeState.ENDED:
                return []
            case NodeRefuse(), _:
                return self._refused_by_peer(message)
            case NodeChallenge(), HandshakeState.HELLO_SENT:
                return self._prove(message)
            case NodeWelcome(), HandshakeState.HELLO_SENT | HandshakeState.PROVING:
                return self._accept_welcome(message)
            case _:
                return self._reject_out_of_state(message)

    def _hint(self) -> str:
        if self.state is not HandshakeState.HELLO_SENT:
            return ""
        return (
            "; the place must be one of a node's network.listen,"
            " and both or none of the nodes have a network.certificate"
        )

    def _prove(self, challenge: NodeChallenge) -> list[Effect]:
        if self.key is None:
            return self._refuse(
                AuthenticationFailed("a key is asked for, and who dials has no network.key_file")
            )
        self._challenge = challenge
        self.state = HandshakeState.PROVING
        return [Send(NodeProof(initiator_proof(self.key, self.hello(), challenge)))]

    def _accept_welcome(self, welcome: NodeWelcome) -> list[Effect]:
        error = self._find_error(welcome)
        if error:
            return self._refuse(error)
        return self._end(
            Accepted(
                *(welcome.node, self._is_trusted(), welcome.version, self.purpose),
                members=welcome.members,
                admitted=welcome.admitted,
            )
        )

    def _find_error(self, welcome: NodeWelcome) -> BrokerError | None:
        if self.key is not None:
            expected = self._challenge and responder_proof(
                self.key, self.hello(), self._challenge, welcome
            )
            if not (expected and proofs_equal(expected, welcome.proof)):
                return AuthenticationFailed("the answering node has not proven that it has the key")
        if impostor := self._check_certificate(welcome.node):
            return impostor
        if welcome.version not in self.node.versions:
            return VersionMismatch(f"version {welcome.version} was not offered")
        name = welcome.node.name
        if name == self.node.name or (self.expected_name and name != self.expected_name):
            return NameTaken(f"{name} has answered")
        if welcome.cluster != welcome.node.address.unit:
            return ProtocolError("the answering node is not of its own cluster")
        if welcome.cluster[: len(self.cluster)] != self.cluster:
            return WrongNetwork("the answering node is of another cluster")
        return None


@attrs.define
class Responder(_HandshakeCore):
    """The side that took the connection."""

    decide: DecideAdmission
    nonce: bytes = attrs.field(factory=lambda: secrets.token_bytes(NONCE_BYTES))
    _hello: NodeHello | None = attrs.field(default=None, init=False)

    def start(self, now: float) -> list[Effect]:
        """The connection is there."""
        self._deadline = now + HANDSHAKE_TIMEOUT
        return []

    def receive_message(self, message: Message, now: float) -> list[Effect]:
        """The peer has said something. After the end nothing is heard any more."""
        match message, self.state:
            case _, HandshakeState.ENDED:
                return []
            case NodeRefuse(), _:
                return self._refused_by_peer(message)
            case NodeHello(), HandshakeState.NEW:
                return self._check_hello(message)
            case NodeProof(), HandshakeState.PROVING:
                return self._check_proof(message)
            case _:
                return self._reject_out_of_state(message)

    def _check_hello(self, hello: NodeHello) -> list[Effect]:
        if hello.magic != MAGIC:
            return self._refuse(ProtocolError("not the greeting of a node"))
        if not set(hello.versions) & set(self.node.versions):
            spoken = ", ".join(map(str, self.node.versions))
            return self._refuse(VersionMismatch(f"this node speaks version {spoken}"))
        if hello.network != self.network:
            return self._refuse(WrongNetwork("the network.name of both differ"))
        if impostor := self._check_certificate(hello.node):
            return self._refuse(impostor)
        self._hello = hello
        if self.key is None:
            return self._answer(hello)
        self.state = HandshakeState.PROVING
        return [Send(self._challenge())]

    def _check_proof(self, proof: NodeProof) -> list[Effect]:
        hello = self._hello
        assert hello and self.key is not None
        if not proofs_equal(initiator_proof(self.key, hello, self._challenge()), proof.proof):
            return self._refuse(AuthenticationFailed("the network.key_file of both differ"))
        return self._answer(hello)

    def _answer(self, hello: NodeHello) -> list[Effect]:
        trusted = self._is_trusted()
        decision = self.decide(hello, trusted)
        if isinstance(decision, Refusal):
            return self._refuse(
                decision.error, decision.alternatives, cluster=self.node.address.unit
            )
        version = max(set(hello.versions) & set(self.node.versions))
        welcome = NodeWelcome(
            *(version, self.node, self.node.address.unit),
            *(decision.peer.admitted, decision.members),
        )
        if self.key is not None:
            proof = responder_proof(self.key, hello, self._challenge(), welcome)
            welcome = attrs.evolve(welcome, proof=proof)
        accepted = Accepted(decision.peer, trusted, version, hello.purpose)
        return self._end(Send(welcome), accepted)

    def _challenge(self) -> NodeChallenge:
        # To whom has proven nothing yet no more is told than where it has dialled.
        return NodeChallenge(self.node, self.nonce)
