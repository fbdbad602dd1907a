"""Random types of nested elements, with valid documents and queries.

The queries follow published measurements of XML filters. They walk down the DTD for at most six
levels, with `//` for 0.2 of the steps and `*` for 0.2. All are distinct, and some have a predicate
on a value.
"""

from __future__ import annotations

import random
from typing import Final

ROOT: Final = "n0"
LEVELS: Final = 6
WILDCARD: Final = 0.2
DESCENDANT: Final = 0.2
PREDICATE: Final = 0.4
#: Elements of a type. All but the last few contain others.
_ELEMENTS: Final = 24
_LEAVES: Final = 6
#: Below this level, or in a document of this size, only required content is written.
_DEEPEST: Final = 9
_LARGEST: Final = 80
_VALUES: Final = 50
_WORDS: Final = ("tides", "court", "running")


class RandomType:
    """A random type. A content model is a sequence of choices with their occurrence."""

    def __init__(self, seed: int) -> None:
        chance = self._chance = random.Random(seed)
        names = [f"n{number}" for number in range(_ELEMENTS)]
        self._content: dict[str, list[tuple[list[str], str]]] = {}
        self._attributes: dict[str, dict[str, str]] = {}
        for number, name in enumerate(names):
            below = names[number + 1 :]
            parts: list[tuple[list[str], str]] = []
            if number < _ELEMENTS - _LEAVES:
                # An element in two parts would make the model ambiguous.
                chance.shuffle(below)
                for _ in range(chance.randint(2, 4)):
                    choice = [below.pop() for _ in range(chance.randint(1, 3)) if below]
                    if choice:
                        parts.append((choice, chance.choice(["", "?", "*", "+", "*"])))
                if number and chance.random() < 0.3:
                    parts.append(([name], "?"))
            self._content[name] = parts
            self._attributes[name] = {
                f"a{n}": chance.choice(["#IMPLIED", "#IMPLIED", f'"{chance.randrange(_VALUES)}"'])
                for n in range(4)
                if chance.random() < 0.5
            }
        self._size = 0

    def declarations(self) -> str:
        """Return the DTD's declarations. The outermost element is `ROOT`."""
        lines = []
        for name, parts in self._content.items():
            model = ", ".join(f"({' | '.join(choice)}){occur}" for choice, occur in parts)
            lines.append(f"<!ELEMENT {name} ({model or '#PCDATA'})>")
            for attribute, default in self._attributes[name].items():
                lines.append(f"<!ATTLIST {name} {attribute} CDATA {default}>")
        return "\n".join(lines)

    def document(self) -> str:
        """Return another valid document."""
        self._size = 0
        return self._element(ROOT, 1)

    def queries(self, count: int) -> list[str]:
        """Return `count` distinct queries."""
        found: dict[str, None] = {}
        while len(found) < count:
            found[self._walk()] = None
        return list(found)

    def _element(self, name: str, level: int) -> str:
        chance = self._chance
        self._size += 1
        attributes = "".join(
            f' {each}="{chance.randrange(_VALUES)}"'
            for each in self._attributes[name]
            if chance.random() < 0.5
        )
        inside = []
        for choice, occur in self._content[name]:
            for _ in range(self._times(occur, level)):
                inside.append(self._element(chance.choice(choice), level + 1))
        content = "".join(inside) if self._content[name] else self._text()
        return f"<{name}{attributes}>{content}</{name}>"

    def _times(self, occur: str, level: int) -> int:
        least = int(occur in ("", "+"))
        if not occur or level >= _DEEPEST or self._size >= _LARGEST:
            return least
        return self._chance.randint(least, 1 if occur == "?" else 3)

    def _text(self) -> str:
        word = self._chance.choice(["", "", *(f"{each} " for each in _WORDS)])
        return f"{word}{self._chance.randrange(_VALUES)}"

    def _walk(self) -> str:
        chance = self._chance
        walked = [ROOT]
        for _ in range(chance.randint(2, LEVELS) - 1):
            below = [each for choice, _ in self._content[walked[-1]] for each in choice]
            if not below:
                break
            walked.append(chance.choice(below))
        steps = [
            ("//" if chance.random() < DESCENDANT else "/")
            + ("*" if chance.random() < WILDCARD else each)
            for each in walked
        ]
        if chance.random() < PREDICATE:
            place = chance.randrange(len(steps))
            steps[place] += self._predicate(walked[place])
        return "".join(steps)

    def _predicate(self, name: str) -> str:
        chance = self._chance
        value = chance.randrange(_VALUES)
        attributes = list(self._attributes[name])
        if attributes and chance.random() < 0.7:
            return f'[@{chance.choice(attributes)} {chance.choice("==<>")} "{value}"]'
        below = [each for choice, _ in self._content[name] for each in choice]
        if below:
            return f"[{chance.choice(below)} {chance.choice(['=', '!=', '>='])} {value}]"
        return chance.choice([f"[. = {value}]", f'[contains(text(), "{value}")]'])
