"""Merkle trees with SHA-256, as in RFC 6962 and RFC 9162, section 2.1.

Leaves and inner nodes have different prefixes, so that no node passes for a leaf. A path shows its
leaf only together with the number of leaves, which must come from a trusted source with the root.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

HASH_BYTES: Final = 32
#: Of a tree; a path has at most so many bits of hashes.
MOST_LEAVES: Final = 1 << 20
EMPTY_ROOT: Final = sha256().digest()


def hash_leaf(data: bytes) -> bytes:
    return sha256(b"\0" + data).digest()


def hash_leaves(leaves: Sequence[bytes]) -> list[bytes]:
    return [sha256(b"\0" + data).digest() for data in leaves]


def hash_node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\1" + left + right).digest()


def root_of(hashes: Sequence[bytes]) -> bytes:
    """Return the root of a tree with these hashes of leaves."""
    if not hashes:
        return EMPTY_ROOT
    level = list(hashes)
    while len(level) > 1:
        level = _next_level(level)
    return level[0]


def path_of(hashes: Sequence[bytes], index: int) -> list[bytes]:
    """Return the siblings of a leaf and of the nodes above it. Raises IndexError."""
    if not 0 <= index < len(hashes):
        raise IndexError(f"leaf {index} of a tree of {len(hashes)}")
    path: list[bytes] = []
    level = list(hashes)
    while len(level) > 1:
        sibling = index ^ 1
        if sibling < len(level):
            path.append(level[sibling])
        level = _next_level(level)
        index >>= 1
    return path


def root_and_paths(hashes: Sequence[bytes]) -> tuple[bytes, list[bytes]]:
    """Return the root, and the concatenated path of each leaf. Raises ValueError without leaves."""
    if not hashes:
        raise ValueError("a tree without leaves has no path")
    paths: list[list[bytes]] = [[] for _ in hashes]
    level, width = list(hashes), 1
    while len(level) > 1:
        for index, path in enumerate(paths):
            sibling = index // width ^ 1
            if sibling < len(level):
                path.append(level[sibling])
        level = _next_level(level)
        width *= 2
    return level[0], [b"".join(path) for path in paths]


def root_by_path(leaf: bytes, index: int, count: int, path: Sequence[bytes]) -> bytes:
    """Return the root of the tree of `count` leaves that has this hash at `index`.

    Raises ValueError for a path that does not fit.
    """
    if not 0 <= index < count <= MOST_LEAVES:
        raise ValueError(f"leaf {index} of a tree of {count}")
    root, last = leaf, count - 1
    rest = list(reversed(path))
    while last:
        # The last node of a level without a sibling is its own parent.
        if index & 1 or index < last:
            if not rest or len(rest[-1]) != HASH_BYTES:
                raise ValueError("the path is too short, or one of its hashes has a wrong length")
            sibling = rest.pop()
            root = hash_node(sibling, root) if index & 1 else hash_node(root, sibling)
        index >>= 1
        last >>= 1
    if rest:
        raise ValueError("the path is too long")
    return root


def _next_level(level: list[bytes]) -> list[bytes]:
    found = [
        sha256(b"\1" + left + right).digest()
        for left, right in zip(level[::2], level[1::2], strict=False)
    ]
    if len(level) & 1:
        found.append(level[-1])
    return found
