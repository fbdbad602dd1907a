"""Random valid NITF documents; no shape occurs twice."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any, Final

from benchmarks.workloads.nitf_grammar import NITF, ROOT, Attribute, Grammar, height
from broker.event.event_id import EventIdGenerator
from broker.event.writer import write_event

STREAM: Final = "news"
#: Upper bound of attribute values and of numbers in text.
VALUES: Final = 100

#: Beyond these, only required content is written.
_LEVELS: Final = 9
_ELEMENTS: Final = 60
_OPTIONAL: Final = 0.6
#: Of `*` and `+`.
_REPEATS: Final = 3
_ATTRIBUTE: Final = 0.25
_WORDS: Final = ("tides", "in", "norfolk", "are", "running", "normal", "today", "city", "court")


def nitf_events(
    grammar: Grammar, event_ids: EventIdGenerator, count: int, seed: int = 1
) -> Iterator[bytes]:
    """Ids are given in order."""
    now = time.time_ns() // 1_000_000
    for number in range(count):
        document = nitf_document(grammar, random.Random(f"nitf {seed} {number}"))
        yield write_event(event_ids.next_id(now), STREAM, NITF, document)


def nitf_document(grammar: Grammar, chance: random.Random) -> bytes:
    return _Writer(grammar, chance).document()


class _Writer:
    def __init__(self, grammar: Grammar, chance: random.Random) -> None:
        self._grammar = grammar
        self._chance = chance
        self._written: list[str] = []
        self._elements = 0

    def document(self) -> bytes:
        self._element(ROOT, 1)
        return "".join(self._written).encode()

    def _element(self, name: str, level: int) -> None:
        self._elements += 1
        declared = self._grammar.elements[name]
        attributes = "".join(map(self._attribute, declared.attributes))
        self._written.append(f"<{name}{attributes}>")
        self._content(declared.content, level)
        self._written.append(f"</{name}>")

    def _attribute(self, attribute: Attribute) -> str:
        if not attribute.required and self._chance.random() > _ATTRIBUTE:
            return ""
        value = str(self._chance.randrange(VALUES))
        if attribute.kind == "enumeration":
            value = self._chance.choice(attribute.values)
        elif attribute.kind == "id":
            value = f"i{self._elements}"
        elif attribute.kind in ("idref", "idrefs", "entity", "entities", "notation"):
            return ""
        return f' {attribute.name}="{value}"'

    def _content(self, content: Any, level: int) -> None:
        if content is None:
            return
        for _ in range(self._times(content, level)):
            if content.type == "pcdata":
                self._written.append(self._text())
            elif content.type == "element":
                self._element(content.name, level + 1)
            elif content.type == "seq":
                self._content(content.left, level)
                self._content(content.right, level)
            else:
                self._content(self._alternative(content, level), level)

    def _times(self, content: Any, level: int) -> int:
        least = 0 if content.occur in ("opt", "mult") else 1
        if content.occur == "once" or self._must_end(level):
            return least
        if content.occur == "opt":
            return int(self._chance.random() < _OPTIONAL)
        return self._chance.randint(least, _REPEATS)

    def _alternative(self, content: Any, level: int) -> Any:
        found = []
        while content.type == "or":
            found.append(content.left)
            # Nested alternatives that repeat count as one alternative.
            if content.right.type != "or" or content.right.occur != "once":
                found.append(content.right)
                break
            content = content.right
        if self._must_end(level):
            return min(found, key=self._height)
        return self._chance.choice(found)

    def _height(self, content: Any) -> float:
        return height(content, self._grammar.heights)

    def _must_end(self, level: int) -> bool:
        return level >= _LEVELS or self._elements >= _ELEMENTS

    def _text(self) -> str:
        words = self._chance.choices(_WORDS, k=self._chance.randint(1, 6))
        return f"{' '.join(words)} {self._chance.randrange(VALUES)}"
