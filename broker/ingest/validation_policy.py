"""Acceptance of published events that have no DTD, or are not valid by it.

It decides for the origin alone. Other nodes treat an event as its origin has validated it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from broker.config.settings import EventTypeSettings, Settings, TypeSettings

_ACCEPT: Final = "accept"
_DEFAULT: Final = "default"
_CACHED: Final = 10_000


class ValidationPolicy:
    """The most specific setting counts: that of the stream, of the type, of the node."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.accepts_undescribed = lru_cache(_CACHED)(self._accepts_undescribed)
        self._accepting_stream = any(each.undescribed == _ACCEPT for each in settings.streams)
        self.may_mark = any(each.on_invalid == "mark" for each in settings.event_types)
        """True if invalid events of some type are accepted with a mark."""

    def _accepts_undescribed(self, type_name: str, stream: str) -> bool:
        """Return True if the stream takes events of a type that has no DTD."""
        chosen = self._settings.stream_settings(stream).undescribed
        return (self._of_type(type_name) if chosen == _DEFAULT else chosen) == _ACCEPT

    def may_accept_undescribed(self, type_name: str) -> bool:
        """Return True if some stream takes events of a type that has no DTD."""
        return self._accepting_stream or self._of_type(type_name) == _ACCEPT

    @property
    def may_accept_any(self) -> bool:
        """True if some stream takes events of some type that has no DTD."""
        return (
            self._accepting_stream
            or self._settings.types.undescribed == _ACCEPT
            or any(each.undescribed == _ACCEPT for each in self._settings.event_types)
        )

    @property
    def is_strict(self) -> bool:
        """True if all events of this node's publishers are valid by a DTD."""
        return not (self.may_accept_any or self.may_mark)

    def marks_invalid(self, type_name: str) -> bool:
        """Return True if events that are not valid by the type's DTD are accepted with a mark."""
        found = find_type_settings(self._settings.event_types, type_name)
        return found is not None and found.on_invalid == "mark"

    def _of_type(self, type_name: str) -> str:
        found = find_type_settings(self._settings.event_types, type_name)
        if found is None or found.undescribed == _DEFAULT:
            node: TypeSettings = self._settings.types
            return node.undescribed
        return found.undescribed


def find_type_settings(
    tables: Sequence[EventTypeSettings], type_name: str
) -> EventTypeSettings | None:
    """Return the settings with the longest name that matches; None if none does."""
    matching = [each for each in tables if each.matches(type_name)]
    return max(matching, key=lambda each: (not each.is_pattern, len(each.name)), default=None)
