"""Check of the proofs of events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from broker.errors import BadSignature
from broker.event.origin import origin_has_key
from broker.order_certificates.merkle import HASH_BYTES, hash_node
from broker.order_certificates.signing_key import has_signed
from broker.signatures.leaf import PlacedEvent, hash_event
from broker.signatures.proof import Proof, decode_proof, statement

#: Wrong keys that one checker hashes.
MOST_FOREIGN_KEYS: Final = 4


class ProofChecker:
    """Checks events of one origin, in one batch of work.

    The nodes of a tree are kept once its signature is checked, so that further events of it cost a
    hash or two. A new checker begins without any.
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._name = origin.encode()
        self._key: bytes | None = None
        self._foreign_keys: set[bytes] = set()
        self._trees: dict[bytes, dict[tuple[int, int], bytes]] = {}
        """By signature, key and number of leaves: proved hashes by level and index."""

    def check(self, event: PlacedEvent, proof: bytes) -> None:
        """Raises `BadSignature`."""
        found = decode_proof(proof)
        leaf = hash_event(found.salt, self._name, event)
        tree = self._trees.get(found.signature + found.key + bytes((found.leaves,)))
        if tree is None:
            self._check_tree(found, leaf)
        elif not _is_proved(tree, found, leaf):
            raise BadSignature(f"the event at {_place(self._origin, event)} is not the signed one")

    def _check_tree(self, proof: Proof, leaf: bytes) -> None:
        nodes = _climb(proof, leaf)
        root = nodes[max(nodes)]
        if not has_signed(proof.key, proof.signature, statement(self._name, proof.leaves, root)):
            raise BadSignature(f"an event of the log {self._origin} is not the one that was signed")
        if not self._is_own_key(proof.key):
            raise BadSignature(f"the log {self._origin} does not belong to the key of its proof")
        self._trees[proof.signature + proof.key + bytes((proof.leaves,))] = nodes

    def _is_own_key(self, key: bytes) -> bool:
        """Hash few keys: each takes milliseconds, and only one key belongs to a log."""
        if self._key is None and key not in self._foreign_keys:
            if len(self._foreign_keys) >= MOST_FOREIGN_KEYS:
                return False
            if origin_has_key(self._origin, key):
                self._key = key
            else:
                self._foreign_keys.add(key)
        return key == self._key


def _place(origin: str, event: PlacedEvent) -> str:
    epoch, offset = event.mark
    return f"{origin}:{epoch}:{offset}"


def _steps(proof: Proof) -> Iterable[tuple[int, int, bytes | None]]:
    """Yield level, index and sibling on the way to the root. Raises `BadSignature`.

    The last node of a level without a sibling is its own parent (RFC 6962).
    """
    index, last, at, level = proof.position, proof.leaves - 1, 0, 0
    path = proof.path
    while last:
        sibling = None
        if index & 1 or index < last:
            sibling = path[at : at + HASH_BYTES]
            at += HASH_BYTES
            if len(sibling) != HASH_BYTES:
                raise BadSignature("the path of a proof is too short")
        yield level, index, sibling
        index >>= 1
        last >>= 1
        level += 1
    if at != len(path):
        raise BadSignature("the path of a proof is too long")


def _climb(proof: Proof, leaf: bytes) -> dict[tuple[int, int], bytes]:
    """Return the hashes on the way to the root, and beside it."""
    nodes, found, top = {(0, proof.position): leaf}, leaf, 0
    for level, index, sibling in _steps(proof):
        if sibling is not None:
            nodes[level, index ^ 1] = sibling
            found = hash_node(sibling, found) if index & 1 else hash_node(found, sibling)
        top = level + 1
        nodes[top, index >> 1] = found
    return nodes


def _is_proved(tree: dict[tuple[int, int], bytes], proof: Proof, leaf: bytes) -> bool:
    """Climb to the first known node and compare it; above, compare only what is beside the way."""
    new: dict[tuple[int, int], bytes] = {}
    found, is_known = leaf, False
    for level, index, sibling in _steps(proof):
        if not is_known:
            known = tree.get((level, index))
            if known is not None:
                if known != found:
                    return False
                is_known = True
        if is_known:
            if sibling is not None and tree[level, index ^ 1] != sibling:
                return False
            continue
        new[level, index] = found
        if sibling is not None:
            new[level, index ^ 1] = sibling
            found = hash_node(sibling, found) if index & 1 else hash_node(found, sibling)
    if not is_known and tree[max(tree)] != found:
        return False
    tree.update(new)
    return True
