"""Addresses of units and nodes (Mspaces G1, G2).

The text of a unit's path is `alps.c1`, of a node's address `alps.c1/n3`. The whole network is the
empty path. A node directly in it is `/n3`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, NamedTuple, TypeAlias

import msgspec

from broker.errors import BadName

#: Bounds addresses on the wire.
MAX_DEPTH = 8
_NAME = re.compile(r"\A[A-Za-z0-9_-]{1,64}\Z")
Name: TypeAlias = Annotated[str, msgspec.Meta(pattern=_NAME.pattern)]
UnitPath: TypeAlias = Annotated[tuple[Name, ...], msgspec.Meta(max_length=MAX_DEPTH)]

NETWORK: UnitPath = ()


class Address(NamedTuple):
    """The node's name alone is unique in the network."""

    unit: UnitPath
    node: Name

    def __str__(self) -> str:
        return f"{unit_text(self.unit)}/{self.node}"

    @classmethod
    def parse(cls, text: str) -> Address:
        """Raises `BadName`."""
        unit, slash, node = text.rpartition("/")
        if not slash:
            raise BadName(
                f"{_shorten(text)} is no address: expected a cluster's path, a slash, a node's name"
            )
        return cls(parse_unit(unit), check_name(node))


def address_or_none(text: str) -> Address | None:
    try:
        return Address.parse(text)
    except BadName:
        return None


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise BadName(
            f"{_shorten(name)} is no name of a unit or a node: expected 1 to 64 of A-Z a-z 0-9 _ -"
        )
    return name


def parse_unit(text: str) -> UnitPath:
    """Raises `BadName`, also for a path that is too deep."""
    return check_unit(tuple(text.split("."))) if text else NETWORK


def check_unit(path: UnitPath) -> UnitPath:
    """Raises `BadName`."""
    if len(path) > MAX_DEPTH:
        raise BadName(f"a unit lies {len(path)} levels deep, over {MAX_DEPTH}")
    for name in path:
        check_name(name)
    return path


def unit_text(path: UnitPath) -> str:
    return ".".join(path)


def is_within(path: UnitPath, scope: UnitPath) -> bool:
    return path[: len(scope)] == scope


def common_prefix(one: UnitPath, other: UnitPath) -> UnitPath:
    shared = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        shared += 1
    return one[:shared]


def enclosing_units(path: UnitPath) -> Iterator[UnitPath]:
    """Yield `path`, then the units around it up to the whole network."""
    for depth in range(len(path), -1, -1):
        yield path[:depth]


def child_towards(context: UnitPath, path: UnitPath) -> str:
    """Return the child of `context` around `path`, which is strictly within `context`."""
    return path[len(context)]


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:80] + "...")
