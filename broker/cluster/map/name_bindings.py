"""Public keys of nodes: each node signs its descriptor, and some names belong to one key.

The key of a name is configured (`network.public_keys`), or is that of the log which its node names
over a link with its certificate, or with `network.keep_keys` the first one seen. Other names belong
to the key of their present descriptor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, NamedTuple

from msgspec import Meta

from broker.cluster.descriptor import NodeDescriptor
from broker.errors import BadSignature, ProtocolError
from broker.event.origin import is_signed_origin, origin_has_key
from broker.order_certificates.signing_key import PinnedKeys, SigningKey
from broker.signatures.statement import NODE_DOMAIN, check_statement, sign_statement
from broker.wire.codec import Schema, pack

#: Names that certificates of links have bound, and kept ones; further ones are not bound.
MOST_BOUND: Final = 4_096
#: Kind of stored statements (`broker.log.log_history`): by name the key that it keeps.
STORED: Final = b"k"


class DescriptorProof(NamedTuple):
    """Entry beside a node's descriptor."""

    key: Annotated[bytes, Meta(min_length=32, max_length=32)]
    signature: Annotated[bytes, Meta(min_length=64, max_length=64)]


class SignedDescriptor(NamedTuple):
    node: NodeDescriptor
    proof: DescriptorProof

    @classmethod
    def from_plain(cls, descriptor: Any, proof: Any) -> SignedDescriptor:
        """Raises `ProtocolError`."""
        return cls(NodeDescriptor.from_plain(descriptor), _PROOF.convert(proof))

    @property
    def is_of_log(self) -> bool:
        """Return whether the log that it names belongs to the key that has signed it."""
        plain = self.node.to_plain()
        try:
            check_statement(*self.proof, NODE_DOMAIN, pack(plain))
        except BadSignature:
            return False
        return origin_has_key(self.node.origin, self.proof.key)


_PROOF: Final = Schema[DescriptorProof](DescriptorProof, "signature of a descriptor")


def prove_descriptor(key: SigningKey, node: NodeDescriptor) -> DescriptorProof:
    signature = sign_statement(key, NODE_DOMAIN, pack(node.to_plain()))
    return DescriptorProof(key.public.raw, signature)


class NameBindings:
    """Keys that names belong to. `rejected` gets a name and the reason, for each rejected entry."""

    def __init__(
        self,
        configured: PinnedKeys | None = None,
        rejected: Callable[[str, ProtocolError], object] = lambda *_: None,
        kept: Mapping[str, bytes] | None = None,
        keep: Callable[[str, bytes], object] = lambda *_: None,
    ) -> None:
        """`kept` are the first keys that earlier processes have seen, and `keep` stores another
        one; None: first keys are not kept."""
        self._configured = {
            name: [each.raw for each in keys] for name, keys in (configured or {}).items()
        }
        self._certified: dict[str, str] = {}
        """Logs by name. Each belongs to a key."""
        self._rejected = rejected
        self._kept = None if kept is None else dict(kept)
        self._keep = keep

    def may_vote(self, name: str) -> bool:
        """Return whether a node counts as a member of its own (`broker.cluster.signed_members`).

        Where some names belong to keys, others do not count: one party can invent many.
        """
        bound = self._configured.keys() | self._certified.keys()
        return not bound or name in bound

    def bind_certified(self, name: str, origin: str) -> bool:
        """Bind a name to the key of a log, which its node names over a link with its certificate.

        Return True if this is another log than before. A log of an earlier version binds nothing.
        """
        known = self._certified.get(name)
        if known == origin or not is_signed_origin(origin):
            return False
        if known is None and len(self._certified) >= MOST_BOUND:
            return False
        self._certified[name] = origin
        return True

    def find_key(self, name: str, descriptor: Any, proof: Any | None) -> bytes | None:
        """Return the public key of a published descriptor; None for one of an earlier version.

        Raises `ProtocolError` if the name belongs to another key, or the signature is wrong.
        """
        try:
            return self._find_key(name, NodeDescriptor.from_plain(descriptor), descriptor, proof)
        except ProtocolError as error:
            self._rejected(name, error)
            raise

    def _find_key(
        self, name: str, node: NodeDescriptor, descriptor: Any, proof: Any | None
    ) -> bytes | None:
        configured, origin = self._configured.get(name), self._certified.get(name)
        kept = None if self._kept is None else self._kept.get(name)
        if proof is None:
            if configured is not None or origin is not None or kept is not None:
                raise BadSignature(f"the descriptor of {name} is not signed by its key")
            return None
        key, signature = _PROOF.convert(proof)
        if configured is not None:
            is_bound = key in configured
        elif origin is not None:
            is_bound = origin_has_key(origin, key)
        else:
            is_bound = kept in (None, key)
        if not is_bound:
            raise BadSignature(f"the descriptor of {name} is signed by another key than its own")
        check_statement(key, signature, NODE_DOMAIN, pack(descriptor))
        if is_signed_origin(node.origin) and not origin_has_key(node.origin, key):
            raise BadSignature(f"{name} announces the log {node.origin} of another key")
        if self._kept is not None and kept != key:
            self._keep_key(name, key)
        return key

    def _keep_key(self, name: str, key: bytes) -> None:
        assert self._kept is not None
        if name in self._kept or len(self._kept) < MOST_BOUND:
            self._kept[name] = key
            self._keep(name, key)
