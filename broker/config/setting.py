"""What a setting is: an attrs field that knows its kind of value and what it is for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import attrs

T = TypeVar("T")


class BadElement(ValueError):
    """One element of a list is wrong: `index` tells which."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"element {index + 1}" + (f": {reason}" if reason else " is not"))
        self.index = index


@attrs.frozen
class Kind(Generic[T]):
    """What values a setting takes.

    `allowed` completes the sentence "the setting must be ..."; `read` turns what TOML gave into
    the value and raises `ValueError` with a reason, "" where `allowed` says enough; `write` gives
    TOML that reads back to the value. The value of a `secret` is never shown.
    """

    allowed: str
    read: Callable[[object], T]
    write: Callable[[T], str]
    secret: bool = False


@attrs.frozen
class Setting(Generic[T]):
    """What is known of a key beside its value: its kind, what it is for, its default in words.

    `shown` is TOML that stands for a default which differs from place to place, None where the
    default is the same everywhere.
    """

    kind: Kind[T]
    doc: str
    shown: str | None = None


def setting(kind: Kind[T], default: T, doc: str) -> T:
    """An attrs field that is read from the configuration file."""
    return attrs.field(default=default, metadata={Setting: Setting(kind, doc)})


def derived_setting(kind: Kind[T], default: Callable[[Any], T], doc: str, *, shown: str) -> T:
    """Like `setting`, with a default that is made from the other fields of the instance."""
    factory = attrs.Factory(default, takes_self=True)
    return attrs.field(default=factory, metadata={Setting: Setting(kind, doc, shown)})


def required_setting(kind: Kind[T], doc: str, *, shown: str) -> T:
    """Like `setting`, without a default: leaving it out is an error."""
    field: T = attrs.field(metadata={Setting: Setting(kind, doc, shown)})
    return field


def settings_of(section: type) -> dict[str, tuple[attrs.Attribute[Any], Setting[Any]]]:
    """The settings of a section's class by key, in the order in which they are written."""
    return {
        field.name: (field, field.metadata[Setting])
        for field in attrs.fields(section)
        if Setting in field.metadata
    }
