"""Queries on given documents, like those of published measurements of XML filters.

They walk down for at most six levels, with `//` for 0.2 of the steps and `*` for 0.2. Most have a
predicate on a value from one of the documents.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from lxml import etree

LEVELS = 6
_SHARE = 0.2
_NUMBER = re.compile(rb"(?<=[>\" ])-?[0-9]+(?:\.[0-9]+)?(?=[<\" ])")


class Workload:
    """Distinct queries; `namespaces` has their prefixes."""

    def __init__(self, payloads: Sequence[bytes], seed: int) -> None:
        self._chance = random.Random(seed)
        self.namespaces: dict[str, str] = {}
        self._prefixes: dict[str, str] = {}
        self._elements = [
            element for payload in payloads for element in etree.fromstring(payload).iter("*")
        ]

    def queries(self, count: int) -> list[str]:
        """Return `count` queries."""
        found: dict[str, None] = {}
        while len(found) < count:
            found[self._query()] = None
        return list(found)

    def _query(self) -> str:
        chance = self._chance
        element = chance.choice(self._elements)
        walked = [element, *element.iterancestors()][::-1][:LEVELS]
        path = "".join(map(self._step, walked))
        end = walked[-1]
        match chance.randrange(10):
            case 0:
                return path
            case 1:
                return f"not({path}{self._predicate(end)})"
            case 2:
                return f"count({path}) > {chance.randrange(4)}"
            case 3:
                return f"{path}{self._predicate(end)} and //{self._name(chance.choice(walked))}"
            case 4:
                return f"{path}[{chance.choice(['1', '2', 'last()'])}]{self._predicate(end)}"
            case 5:
                return f"{path}{self._predicate(end)}{self._predicate(end)}"
            case 6:
                return f"starts-with({path}, {self._literal(_text(end)[:3])})"
        return path + self._predicate(end)

    def _step(self, element: etree._Element) -> str:
        name = "*" if self._chance.random() < _SHARE else self._name(element)
        return ("//" if self._chance.random() < _SHARE else "/") + name

    def _predicate(self, element: etree._Element) -> str:
        chance = self._chance
        sides = [(f"@{self._prefixed(str(k))}", str(v)) for k, v in element.items()]
        sides += [(self._name(child), _text(child)) for child in element.iterchildren("*")]
        if _text(element).strip():
            sides.append((".", _text(element)))
        if not sides:
            return ""
        tests = []
        for name, value in chance.sample(sides, min(len(sides), chance.choice([1, 1, 2]))):
            match chance.randrange(8):
                case 0:
                    tests.append(f"contains({name}, {self._literal(value[1:4])})")
                case 1:
                    tests.append(f"{chance.randrange(100)} < {name}")
                case 2:
                    tests.append(f"{name} {chance.choice(['<', '>=', '!='])} {chance.random():.2f}")
                case 3:
                    tests.append(name)
                case 4:
                    tests.append(f"not({name} = {self._literal(value)})")
                case _:
                    tests.append(f"{name} = {self._literal(value)}")
        return "[" + chance.choice([" and ", " and ", " or "]).join(tests) + "]"

    def _literal(self, value: str) -> str:
        return f'"{value[:60]}"'.replace("\x00", "") if '"' not in value else f"'{value[:9]}'"

    def _name(self, element: etree._Element) -> str:
        return self._prefixed(str(element.tag))

    def _prefixed(self, clark: str) -> str:
        if clark[0] != "{":
            return clark
        uri, _, local = clark[1:].rpartition("}")
        prefix = self._prefixes.setdefault(uri, f"n{len(self._prefixes)}")
        self.namespaces[prefix] = uri
        return f"{prefix}:{local}"


def varied(payload: bytes, chance: random.Random) -> bytes:
    """Return the payload with a third of its numbers changed."""

    def other(match: re.Match[bytes]) -> bytes:
        return match.group() if chance.random() < 0.67 else b"%d" % chance.randrange(100)

    return _NUMBER.sub(other, payload)


def _text(element: etree._Element) -> str:
    return "".join(map(str, element.itertext())).replace("'", "").replace("\r", "")
