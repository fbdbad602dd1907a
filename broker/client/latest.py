"""The newest event of each key: what is known of each flight, station or alert now (Q3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from broker.client.received import ReceivedEvent
from broker.errors import Overloaded
from broker.matching.keys import key_of

#: What an event is about.
Key: TypeAlias = Callable[[ReceivedEvent], str]
#: Keys that are held, unless a caller says otherwise.
MAX_KEYS: Final = 100_000


def by_stream(event: ReceivedEvent) -> str:
    """Its stream."""
    return event.stream


def by_xpath(text: str, namespaces: Mapping[str, str] | None = None) -> Key:
    """The string-value of an XPath expression on the payload as its publisher wrote it; empty for
    an event that has none. Raises `BadQuery`, also of the key, for what can not be evaluated."""
    value = key_of(text, namespaces or {})
    return lambda event: "" if event.payload is None else value(event.payload)


class Latest:
    """The newest of each key among events that come in order."""

    def __init__(self, key: Key, max_keys: int = MAX_KEYS) -> None:
        self._key = key
        self._max_keys = max_keys
        self._events: dict[str, ReceivedEvent] = {}

    def add(self, event: ReceivedEvent) -> None:
        """The next event. Raises `Overloaded` for one key too many."""
        key = self._key(event)
        # The newest is the last: what is given out is in the order in which it came.
        self._events.pop(key, None)
        self._events[key] = event
        if len(self._events) > self._max_keys:
            raise Overloaded(f"there are more than {self._max_keys} keys")

    @property
    def events(self) -> list[ReceivedEvent]:
        """As they came."""
        return list(self._events.values())
