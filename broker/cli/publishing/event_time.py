"""Time of an event by its payload: the option `--time` of `pub`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import attrs
import click
from lxml import etree

from broker.cli.publishing.pace import parse_event_time
from broker.cli.publishing.payload import UnusableDocument
from broker.cli.publishing.publication_key import compile_payload_value
from broker.errors import BadQuery
from broker.event.envelope import event_time_problem

#: Characters of a text that a message repeats.
_SHOWN: Final = 40


@attrs.frozen
class TimeRule:
    text: str
    read_time: Callable[[etree._Element], str] = attrs.field(eq=False, repr=False)

    def find_time(self, payload: etree._Element) -> int | None:
        """Return ms since 1970; None if the expression has no value.

        Raises `UnusableDocument` for a value that is not a time from 1970 on.
        """
        found = self.read_time(payload).strip()
        if not found:
            return None
        time = parse_event_time(found)
        if time is None:
            raise UnusableDocument(
                f"--time {self.text}: {found[:_SHOWN]!r} is not a time: ISO 8601, or ms since 1970"
            )
        if problem := event_time_problem(time):
            raise UnusableDocument(f"--time {self.text}: {problem}")
        return time


def parse_time_rule(text: str, namespaces: Mapping[str, str]) -> TimeRule:
    """Raises `BadQuery`."""
    return TimeRule(text, compile_payload_value(text, namespaces))


def parse_time_option(text: str | None, namespaces: Mapping[str, str]) -> TimeRule | None:
    """Raises `click.UsageError`."""
    try:
        return None if text is None else parse_time_rule(text, namespaces)
    except BadQuery as error:
        raise click.UsageError(f"--time {text}: {error.text}") from None
