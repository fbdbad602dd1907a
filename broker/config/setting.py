"""Settings as attrs fields with a kind of value and a description."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import attrs

T = TypeVar("T")


class BadElement(ValueError):
    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"element {index + 1}" + (f": {reason}" if reason else " is not"))
        self.index = index


@attrs.frozen
class ValueKind(Generic[T]):
    """Kind of value of a setting.

    `allowed` completes "the setting must be ...". `read` converts a TOML value; it raises
    `ValueError` with a reason, or "" if `allowed` explains enough. `write` returns TOML. The value
    of a `secret` is never shown.
    """

    allowed: str
    read: Callable[[object], T]
    write: Callable[[T], str]
    secret: bool = False


@attrs.frozen
class Setting(Generic[T]):
    """Description of a key.

    `shown` is TOML for a default that differs between machines, or an example. `previous` is the
    key's last name, which a file may still use.
    """

    kind: ValueKind[T]
    doc: str
    shown: str | None = None
    previous: str | None = None


def setting(
    kind: ValueKind[T],
    default: T,
    doc: str,
    *,
    shown: str | None = None,
    previous: str | None = None,
) -> T:
    return attrs.field(default=default, metadata={Setting: Setting(kind, doc, shown, previous)})


def derived_setting(kind: ValueKind[T], default: Callable[[Any], T], doc: str, *, shown: str) -> T:
    """Other fields of the instance give the default."""
    factory = attrs.Factory(default, takes_self=True)
    return attrs.field(default=factory, metadata={Setting: Setting(kind, doc, shown)})


def required_setting(kind: ValueKind[T], doc: str, *, shown: str) -> T:
    """The key is required."""
    field: T = attrs.field(metadata={Setting: Setting(kind, doc, shown)})
    return field


def settings_of(section: type) -> dict[str, tuple[attrs.Attribute[Any], Setting[Any]]]:
    """Return settings by key, in the order of the file."""
    return {
        field.name: (field, field.metadata[Setting])
        for field in attrs.fields(section)
        if Setting in field.metadata
    }
