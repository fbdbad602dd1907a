"""Public keys of nodes: each node signs its descriptor, and some names belong to one key.

The key of a name is configured (`network.public_keys`), or comes over a link whose certificate has
the name. Other names belong to the key of their present descriptor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, NamedTuple

from msgspec import Meta

from broker.cluster.descriptor import NodeDescriptor
from broker.errors import BadSignature, ProtocolError
from broker.event.origin import is_signed_origin, origin_has_key
from broker.order_certificates.signing_key import SigningKey
from broker.signatures.statement import NODE_DOMAIN, check_statement, sign_statement
from broker.wire.codec import Schema, pack

#: Names that certificates of links have bound; further ones are not bound.
MOST_BOUND: Final = 4_096


class DescriptorProof(NamedTuple):
    """Entry beside a node's descriptor."""

    key: Annotated[bytes, Meta(min_length=32, max_length=32)]
    signature: Annotated[bytes, Meta(min_length=64, max_length=64)]


_PROOF: Final = Schema[DescriptorProof](DescriptorProof, "signature of a descriptor")


def prove_descriptor(key: SigningKey, node: NodeDescriptor) -> DescriptorProof:
    signature = sign_statement(key, NODE_DOMAIN, pack(node.to_plain()))
    return DescriptorProof(key.public.raw, signature)


class NameBindings:
    """Keys that names belong to. `rejected` gets a name and the reason, for each rejected entry."""

    def __init__(
        self,
        configured: Mapping[str, bytes] | None = None,
        rejected: Callable[[str, ProtocolError], object] = lambda *_: None,
    ) -> None:
        self._configured = configured or {}
        self._certified: dict[str, bytes] = {}
        self._rejected = rejected

    def bind_certified(self, name: str, proof: Any) -> bool:
        """Bind a name to the key that its own node has sent over a link with its certificate.

        Return True if the key is another one than before. A malformed proof binds nothing.
        """
        try:
            key = _PROOF.convert(proof).key
        except ProtocolError:
            return False
        if self._certified.get(name) == key:
            return False
        if name not in self._certified and len(self._certified) >= MOST_BOUND:
            return False
        self._certified[name] = key
        return True

    def find_key(self, name: str, descriptor: Any, proof: Any | None) -> bytes | None:
        """Return the public key of a published descriptor; None for one of an earlier version.

        Raises `ProtocolError` if the name belongs to another key, or the signature is wrong.
        """
        try:
            return self._find_key(name, descriptor, proof)
        except ProtocolError as error:
            self._rejected(name, error)
            raise

    def _find_key(self, name: str, descriptor: Any, proof: Any | None) -> bytes | None:
        bound = self._configured.get(name) or self._certified.get(name)
        if proof is None:
            if bound is not None:
                raise BadSignature(f"the descriptor of {name} is not signed by its key")
            return None
        key, signature = _PROOF.convert(proof)
        if bound not in (None, key):
            raise BadSignature(f"the descriptor of {name} is signed by another key than its own")
        check_statement(key, signature, NODE_DOMAIN, pack(descriptor))
        origin = NodeDescriptor.from_plain(descriptor).origin
        if is_signed_origin(origin) and not origin_has_key(origin, key):
            raise BadSignature(f"{name} announces the log {origin} of another key")
        return key
