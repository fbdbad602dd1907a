"""Public keys of nodes in settings, each with the node's name."""

from __future__ import annotations

from typing import Final, TypeAlias

from broker.config import value_kind
from broker.config.setting import ValueKind

#: A node's name, and its key in base64.
NamedKey: TypeAlias = tuple[str, str]


def _read(value: object) -> NamedKey:
    name, colon, key = value.partition(":") if isinstance(value, str) else ("", "", "")
    if not colon:
        raise ValueError
    return value_kind.NODE_NAME.read(name), value_kind.PUBLIC_KEY.read(key)


NAMED_KEY: Final = ValueKind(
    'a name and a public key of Ed25519 in base64, as "NAME:KEY"',
    _read,
    lambda value: '"' + ":".join(value) + '"',
)
