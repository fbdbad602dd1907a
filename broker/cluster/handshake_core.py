"""State machines for both sides of the handshake (Mspaces G3, T41, T43).

The last effect is `Accepted` or `Refused`, exactly once. After `Refused` the connection is closed
when all is sent.
"""

from __future__ import annotations

import enum
import secrets
from collections.abc import Callable
from typing import TypeAlias

import attrs
import msgspec

from broker.cluster.address import UnitPath
from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.handshake_messages import (
    LINKS,
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
from broker.cluster.map.name_bindings import SignedDescriptor
from broker.cluster.messages import Message
from broker.cluster.traffic.version import CLONE_PROOF_VERSION
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

#: Seconds for some round trips, and a busy node.
HANDSHAKE_TIMEOUT = 10.0


@attrs.frozen
class Send:
    message: Message


@attrs.frozen
class Accepted:
    peer: NodeDescriptor
    """A new member already has its address in the cluster and its time of admission."""
    trusted: bool
    """Proven by the shared key or by the certificate."""
    version: int
    purpose: str
    members: tuple[NodeDescriptor, ...] = ()
    admitted: int = 0


@attrs.frozen
class Refused:
    error: BrokerError
    alternatives: tuple[Alternative, ...] = ()
    cluster: UnitPath = ()
    """Of the refusing peer, if known."""
    by_peer: bool = False
    later: tuple[SignedDescriptor, ...] = ()
    """Of the node's name, if the peer takes the node for an earlier clone."""


Effect: TypeAlias = Send | Accepted | Refused


@attrs.frozen
class Admission:
    peer: NodeDescriptor
    members: tuple[NodeDescriptor, ...] = ()


@attrs.frozen
class Refusal:
    error: BrokerError
    alternatives: tuple[Alternative, ...] = ()
    later: tuple[SignedDescriptor, ...] = ()


#: Decides about a hello; True if the peer is trusted.
DecideAdmission: TypeAlias = Callable[[NodeHello, bool], Admission | Refusal]


class HandshakeState(enum.Enum):
    NEW = enum.auto()
    """Initiator: nothing sent. Responder: nothing received."""
    HELLO_SENT = enum.auto()
    PROVING = enum.auto()
    """Initiator: the proof was sent. Responder: the challenge was sent."""
    ENDED = enum.auto()


@attrs.define
class _HandshakeCore:
    node: NodeDescriptor
    network: str
    key: bytes | None = attrs.field(repr=False)
    """None: no proof is required."""
    state: HandshakeState = attrs.field(default=HandshakeState.NEW, init=False)
    _deadline: float | None = attrs.field(default=None, init=False)
    certified_name: Callable[[], str] = attrs.field(default=lambda: "", init=False)
    """Empty without a certificate."""

    def next_timeout(self) -> float | None:
        return self._deadline

    def handle_timeout(self, now: float) -> list[Effect]:
        if self._deadline is None or now < self._deadline:
            return []
        return self._refuse(
            PeerSilent(f"no handshake within {HANDSHAKE_TIMEOUT:g} s{self._hint()}")
        )

    def reject_malformed(self, error: ProtocolError) -> list[Effect]:
        return [] if self.state is HandshakeState.ENDED else self._refuse(error)

    def connection_lost(self, why: str = "") -> list[Effect]:
        if self.state is HandshakeState.ENDED:
            return []
        reason = f": {why}" if why else self._hint()
        return self._end(Refused(PeerSilent(f"the connection was lost in the handshake{reason}")))

    def _hint(self) -> str:
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
        later: tuple[SignedDescriptor, ...] = (),
    ) -> list[Effect]:
        refusal = Send(NodeRefuse(error.to_wire(), cluster, alternatives, later))
        return self._end(refusal, Refused(error, alternatives))

    def _refused_by_peer(self, refuse: NodeRefuse) -> list[Effect]:
        error = from_wire(refuse.error)
        return self._end(
            Refused(error, refuse.alternatives, refuse.cluster, by_peer=True, later=refuse.later)
        )

    def _is_trusted(self) -> bool:
        return self.key is not None or bool(self.certified_name())

    def _check_certificate(self, node: NodeDescriptor) -> AuthenticationFailed | None:
        name = self.certified_name()
        if name in ("", node.name):
            return None
        return AuthenticationFailed(f"{node.name} has the certificate of {name}")

    def _reject_out_of_state(self, message: Message) -> list[Effect]:
        name = type(message).__name__
        return self._refuse(ProtocolError(f"{name} while the handshake is {self.state.name}"))


@attrs.define
class Initiator(_HandshakeCore):
    """The dialling side."""

    purpose: str
    cluster: UnitPath = ()
    """The requested cluster, or a unit around it."""
    expected_name: str = ""
    """Empty: any node."""
    nonce: bytes = attrs.field(factory=lambda: secrets.token_bytes(NONCE_BYTES))
    _challenge: NodeChallenge | None = attrs.field(default=None, init=False)

    def hello(self) -> NodeHello:
        return NodeHello(
            *(MAGIC, self.node.versions, self.network, self.node),
            *(self.purpose, self.cluster, self.nonce),
        )

    def start(self, now: float) -> list[Effect]:
        self.state = HandshakeState.HELLO_SENT
        self._deadline = now + HANDSHAKE_TIMEOUT
        return [Send(self.hello())]

    def receive_message(self, message: Message, now: float) -> list[Effect]:
        """Messages after the end are ignored."""
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
        place = (
            "that of the links of a node's stack"
            # Links of an instance of the default transport are made at the network's port.
            if self.purpose.startswith(LINKS) and not self.cluster
            else "one of a node's network.listen"
        )
        return (
            f"; the address must be {place},"
            " and either both nodes have a network.certificate or neither"
        )

    def _prove(self, challenge: NodeChallenge) -> list[Effect]:
        if self.key is None:
            return self._refuse(
                AuthenticationFailed(
                    "the peer requires a key, but this node has no network.key_file"
                )
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
        if error := self._check_certificate(welcome.node):
            return error
        if welcome.version not in self.node.versions:
            return VersionMismatch(f"version {welcome.version} was not offered")
        name = welcome.node.name
        if name == self.node.name or (self.expected_name and name != self.expected_name):
            return NameTaken(f"{name} has answered")
        if welcome.cluster != welcome.node.address.unit:
            return ProtocolError("the answering node is not in the cluster that it names")
        if welcome.cluster[: len(self.cluster)] != self.cluster:
            return WrongNetwork("the answering node is in another cluster")
        return None


@attrs.define
class Responder(_HandshakeCore):
    decide: DecideAdmission
    nonce: bytes = attrs.field(factory=lambda: secrets.token_bytes(NONCE_BYTES))
    _hello: NodeHello | None = attrs.field(default=None, init=False)

    def start(self, now: float) -> list[Effect]:
        self._deadline = now + HANDSHAKE_TIMEOUT
        return []

    def receive_message(self, message: Message, now: float) -> list[Effect]:
        """Messages after the end are ignored."""
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
            return self._refuse(ProtocolError("not the hello of a node"))
        if not set(hello.versions) & set(self.node.versions):
            spoken = ", ".join(map(str, self.node.versions))
            return self._refuse(VersionMismatch(f"this node speaks version {spoken}"))
        if hello.network != self.network:
            return self._refuse(WrongNetwork("the nodes have different network.name settings"))
        if error := self._check_certificate(hello.node):
            return self._refuse(error)
        self._hello = hello
        if self.key is None:
            return self._answer(hello)
        self.state = HandshakeState.PROVING
        return [Send(self._challenge())]

    def _check_proof(self, proof: NodeProof) -> list[Effect]:
        hello = self._hello
        assert hello and self.key is not None
        if not proofs_equal(initiator_proof(self.key, hello, self._challenge()), proof.proof):
            return self._refuse(
                AuthenticationFailed("the nodes have different keys in network.key_file")
            )
        return self._answer(hello)

    def _answer(self, hello: NodeHello) -> list[Effect]:
        trusted = self._is_trusted()
        decision = self.decide(hello, trusted)
        if isinstance(decision, Refusal):
            later = decision.later if max(hello.versions) >= CLONE_PROOF_VERSION else ()
            return self._refuse(
                decision.error, decision.alternatives, self.node.address.unit, later
            )
        version = max(set(hello.versions) & set(self.node.versions))
        welcome = NodeWelcome(
            *(version, self.node, self.node.address.unit),
            *(decision.peer.admitted, decision.members),
        )
        if self.key is not None:
            proof = responder_proof(self.key, hello, self._challenge(), welcome)
            welcome = msgspec.structs.replace(welcome, proof=proof)
        accepted = Accepted(decision.peer, trusted, version, hello.purpose)
        return self._end(Send(welcome), accepted)

    def _challenge(self) -> NodeChallenge:
        # An unproven peer learns nothing but the node that it has dialled.
        return NodeChallenge(self.node, self.nonce)
