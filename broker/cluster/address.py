"""Where a node is: the units that it is in, from the largest to its cluster, and its own name.

Mspaces G1, G2. A unit's path as text is `alps.c1`, a node's address `alps.c1/n3`. The whole network
is the empty path, and empty text; a node straight in it is `/n3`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from broker.errors import BadName

UnitPath: TypeAlias = tuple[str, ...]

#: Nobody organises deeper; it bounds addresses on the wire and the number of contexts of a node.
MAX_DEPTH = 8
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)

#: The unit that everything is in.
NETWORK: UnitPath = ()


class Address(NamedTuple):
    """A node's place. The node's name alone already tells it from all others of the network."""

    unit: UnitPath
    """Its cluster."""
    node: str

    def __str__(self) -> str:
        return f"{unit_text(self.unit)}/{self.node}"

    @classmethod
    def parse(cls, text: str) -> Address:
        """The address that `str` wrote. `BadName` if it is none."""
        unit, slash, node = text.rpartition("/")
        if not slash:
            raise BadName(
                f"{_shorten(text)} is no address: a cluster's path, a slash, a node's name"
            )
        return cls(parse_unit(unit), check_name(node))


def address_or_none(text: str) -> Address | None:
    """The address that `str` wrote; None if it is none."""
    try:
        return Address.parse(text)
    except BadName:
        return None


def check_name(name: str) -> str:
    """The name of a unit or a node as it is; `BadName` if it can not be one."""
    if not _NAME.fullmatch(name):
        raise BadName(
            f"{_shorten(name)} is no name of a unit or a node: 1 to 64 of A-Z a-z 0-9 _ -"
        )
    return name


def parse_unit(text: str) -> UnitPath:
    """The path that `unit_text` wrote. `BadName` if it is none, or too deep."""
    return check_unit(tuple(text.split("."))) if text else NETWORK


def check_unit(path: UnitPath) -> UnitPath:
    """The path as it is; `BadName` if it can not be one."""
    if len(path) > MAX_DEPTH:
        raise BadName(f"a unit lies {len(path)} levels deep, over {MAX_DEPTH}")
    for name in path:
        check_name(name)
    return path


def unit_text(path: UnitPath) -> str:
    """The path as people write it."""
    return ".".join(path)


def is_within(path: UnitPath, scope: UnitPath) -> bool:
    """Whether the unit `path` is `scope` or lies in it."""
    return path[: len(scope)] == scope


def common_prefix(one: UnitPath, other: UnitPath) -> UnitPath:
    """The smallest unit that both are in."""
    shared = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        shared += 1
    return one[:shared]


def enclosing_units(path: UnitPath) -> Iterator[UnitPath]:
    """The units that `path` is in, from itself up to the whole network."""
    for depth in range(len(path), -1, -1):
        yield path[:depth]


def child_towards(context: UnitPath, path: UnitPath) -> str:
    """The child of `context` that `path` lies in. `path` is strictly within `context`."""
    return path[len(context)]


def _shorten(text: str) -> str:
    """As much of what a stranger sent as fits into a message."""
    return repr(text if len(text) <= 80 else text[:80] + "...")
