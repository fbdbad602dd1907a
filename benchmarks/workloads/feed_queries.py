"""Queries about values of feeds, of the kinds of a mix."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
from lxml import etree

from benchmarks.workloads.mix import STANDARD, Draw, distinct_queries
from benchmarks.workloads.windows import Scale
from broker.matching.query.number import parse_number

#: Distinct values from which on a path has queries of its own.
_FEW: Final = 3
_MANY: Final = 20
_LONGEST: Final = 40


@attrs.frozen
class FeedQueries:
    texts: Sequence[str]
    namespaces: Mapping[str, str]


def feed_queries(events: Sequence[bytes], count: int, seed: int = 1) -> FeedQueries:
    """Return distinct queries, with literals from the payloads of events."""
    values = _Values()
    for event in events:
        values.add(etree.fromstring(event)[-1])
    kinds = _kinds(values, STANDARD.window)
    texts = [text for _, text in distinct_queries(count, STANDARD, kinds, seed)]
    return FeedQueries(texts, {prefix: uri for uri, prefix in values.prefixes.items()})


class _Values:
    """Values of the payloads by path."""

    def __init__(self) -> None:
        self.prefixes: dict[str, str] = {}
        """Of queries, by namespace."""
        self.texts: defaultdict[str, set[str]] = defaultdict(set)

    def add(self, root: etree._Element) -> None:
        self._add(root, "")

    def _add(self, element: Any, above: str) -> None:
        path = f"{above}/{self._name(element.tag)}"
        if not len(element):
            self._add_value(path, (element.text or "").strip())
        for name, value in element.attrib.items():
            self._add_value(f"{path}/@{self._name(name)}", value)
        for child in element.iterchildren("*"):
            self._add(child, path)

    def _add_value(self, path: str, value: str) -> None:
        if value and len(value) < _LONGEST and '"' not in value:
            self.texts[path].add(value)

    def _name(self, tag: str) -> str:
        name = etree.QName(tag)
        if name.namespace is None:
            return name.localname
        prefix = self.prefixes.setdefault(name.namespace, f"q{len(self.prefixes)}")
        return f"{prefix}:{name.localname}"


def _kinds(values: _Values, window: float) -> dict[str, Draw]:
    known = {path: sorted(each) for path, each in values.texts.items() if len(each) >= _FEW}
    paths = sorted(known)
    scales = []
    for path, each in sorted(known.items()):
        numbers = {number for text in each if abs(number := parse_number(text)) < 1e12}
        if len(numbers) >= _MANY:
            scales.append((path, Scale(numbers)))

    def span(chance: random.Random) -> str:
        path, scale = chance.choice(scales)
        low, high = scale.window(chance, window)
        return f"{path}[. > {low} and . < {high}]"

    def equality(chance: random.Random) -> str:
        path = chance.choice(paths)
        value = chance.choice(known[path])
        return f'{path} = "{value}"' if chance.random() < 0.5 else f'{_anywhere(path)} = "{value}"'

    def prefix(chance: random.Random) -> str:
        path = chance.choice(paths)
        value = chance.choice(known[path])
        return f'starts-with({path}, "{value[: chance.randrange(2, 20)]}")'

    def box(chance: random.Random) -> str:
        side = window**0.5
        (one, first), (other, second) = chance.choices(scales, k=2)
        west, east = first.window(chance, side)
        south, north = second.window(chance, side)
        return f"{one}[. > {west} and . < {east}] and {other}[. > {south} and . < {north}]"

    def correlated(chance: random.Random) -> str:
        path, scale = chance.choice(scales)
        above, _, name = path.rpartition("/")
        low, high = scale.window(chance, window)
        return f"{above}[{name} > {low} and {name} < {high}]"

    def undecidable(chance: random.Random) -> str:
        return f"{span(chance)} and count(//*) > {chance.randrange(5, 500)}"

    return {
        "span": span,
        "equality": equality,
        "prefix": prefix,
        "box": box,
        "correlated": correlated,
        "undecidable": undecidable,
    }


def _anywhere(path: str) -> str:
    """Return a path to the same name at any depth."""
    steps = path.split("/")
    return "//" + "/".join(steps[-2:] if steps[-1].startswith("@") else steps[-1:])
