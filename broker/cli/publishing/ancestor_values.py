"""Values of a collection that are copied into the envelopes of its events. Sans-I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import attrs

from broker.cli.publishing.split_path import START, StartTag, StreamingPath

#: Characters of a value; the rest is cut off.
MAX_VALUE: Final = 1_000

Field = Literal["summary", "application-type"]


@attrs.frozen
class Copy:
    field: Field
    path: StreamingPath


@attrs.define
class _Source:
    """Values of one path, each with the depth of the element to which it belongs."""

    copy: Copy
    states: list[int]
    values: list[tuple[int, str]] = attrs.field(factory=list)
    text: list[str] | None = None
    """Text of the element that is read now."""
    text_depth: int = 0
    length: int = 0

    def add(self, depth: int, value: str) -> None:
        # The first one of an element counts, as for string() of XPath.
        if not self.values or self.values[-1][0] < depth:
            self.values.append((depth, " ".join(value.split())[:MAX_VALUE]))


class AncestorValues:
    """The value of a path is the first one within the innermost open element that has one.

    An attribute belongs to its element, a text to the parent of its element.
    """

    def __init__(self, copies: Sequence[Copy]) -> None:
        self._sources = [_Source(copy, [START]) for copy in copies]

    @property
    def reads_text(self) -> bool:
        return any(source.text is not None for source in self._sources)

    def open_element(self, tag: StartTag, depth: int) -> None:
        """`depth` is 1 for the root."""
        for source in self._sources:
            state, is_match = source.copy.path.advance(source.states[-1], tag)
            source.states.append(state)
            attribute = source.copy.path.attribute
            if not is_match:
                continue
            if attribute is None:
                if source.text is None:
                    source.text, source.text_depth, source.length = [], depth, 0
            elif (value := tag.find_attribute(*attribute)) is not None:
                source.add(depth, value)

    def add_text(self, text: str) -> None:
        for source in self._sources:
            # Blanks are collapsed later, so more than the bound is collected.
            if source.text is not None and source.length < 4 * MAX_VALUE:
                source.text.append(text[: 4 * MAX_VALUE])
                source.length += len(text)

    def close_element(self, depth: int) -> None:
        for source in self._sources:
            source.states.pop()
            while source.values and source.values[-1][0] >= depth:
                source.values.pop()
            if source.text is not None and source.text_depth == depth:
                source.add(depth - 1, "".join(source.text))
                source.text = None

    def drop_text(self) -> None:
        """Drop texts that are read: an event begins within them."""
        for source in self._sources:
            source.text = None

    def fields(self) -> dict[str, Any]:
        """Return the fields of a line of JSON that have a value now."""
        fields: dict[str, Any] = {}
        for source in self._sources:
            value = source.values[-1][1] if source.values else ""
            if value and source.copy.field == "summary":
                fields["summary"] = value
            elif value:
                fields.setdefault("application_types", []).append(value)
        return fields
