"""The newest event of each key, such as the state of each flight, station or alert (Q3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from broker.client.received import ReceivedEvent
from broker.errors import Overloaded
from broker.matching.payload_key import compile_key

Key: TypeAlias = Callable[[ReceivedEvent], str]
MAX_KEYS: Final = 100_000


def by_stream(event: ReceivedEvent) -> str:
    return event.stream


def by_xpath(text: str, namespaces: Mapping[str, str] | None = None) -> Key:
    """Return the string-value of an XPath expression on the payload as a key, empty without one.

    This function or the key raises `BadQuery`.
    """
    value = compile_key(text, namespaces or {})
    return lambda event: "" if event.payload is None else value(event.payload)


class Latest:
    def __init__(self, key: Key, max_keys: int = MAX_KEYS) -> None:
        self._key = key
        self._max_keys = max_keys
        self._events: dict[str, ReceivedEvent] = {}

    def add(self, event: ReceivedEvent) -> None:
        """Raises `Overloaded` for one key too many."""
        key = self._key(event)
        self._events.pop(key, None)
        self._events[key] = event
        if len(self._events) > self._max_keys:
            raise Overloaded(
                f"there are more than {self._max_keys} keys; narrow the query or raise the limit"
            )

    @property
    def events(self) -> list[ReceivedEvent]:
        return list(self._events.values())
