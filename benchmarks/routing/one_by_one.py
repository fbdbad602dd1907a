"""Every query, compiled, on every event, as in brokers without content routing."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from lxml import etree

from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.routing.engine import Engine, Matched
from broker.dtd.cache import DtdCache
from broker.dtd.reference import DtdReference

#: All would take too much memory.
_AT_A_TIME: Final = 5_000


class OneByOne:
    def __init__(
        self, queries: Sequence[str], namespaces: Mapping[str, str], dtds: DtdCache
    ) -> None:
        self._compiled = [
            etree.XPath(f"boolean({text})", namespaces=dict(namespaces), regexp=False)
            for text in queries
        ]
        self._dtds = dtds

    def match(self, documents: Sequence[bytes]) -> Matched:
        matches = sum(len(matching) for matching in self.match_each(documents))
        return Matched(matches, len(documents) * len(self._compiled), len(documents))

    def match_each(self, documents: Sequence[bytes]) -> Iterator[list[int]]:
        """Yield matching queries by index."""
        for document in documents:
            payload = self._payload(document)
            yield [index for index, xpath in enumerate(self._compiled) if xpath(payload)]

    def _payload(self, document: bytes) -> etree._Element:
        root = etree.fromstring(document)
        public_id = root.getroottree().docinfo.public_id
        dtd = self._dtds.get(DtdReference.from_public_id(public_id or ""))
        if dtd is None:
            raise BenchmarkFailed("the type of an event is not known")
        dtd.apply_defaults(root)
        return copy.deepcopy(root[-1])


def check_agreement(
    engine: Engine,
    numbers: Sequence[int],
    queries: Sequence[str],
    namespaces: Mapping[str, str],
    documents: Sequence[bytes],
    dtds: DtdCache,
) -> int:
    """Return the number of common matches.

    Raises `BenchmarkFailed` with the first difference.
    """
    expected: list[set[int]] = [set() for _ in documents]
    waiting = iter(zip(numbers, queries, strict=True))
    while part := list(islice(waiting, _AT_A_TIME)):
        alone = OneByOne([text for _, text in part], namespaces, dtds)
        for found, indices in zip(expected, alone.match_each(documents), strict=True):
            found.update(part[index][0] for index in indices)
    texts = dict(zip(numbers, queries, strict=True))
    for place, (found, engine_matches) in enumerate(
        zip(expected, engine.match_each(documents), strict=True)
    ):
        if different := sorted(found.symmetric_difference(engine_matches)):
            number = different[0]
            raise BenchmarkFailed(
                f"engine and lxml differ on event {place} of the sample and {len(different)} "
                f"queries: lxml says {number in found} for {texts[number]}"
            )
    return sum(map(len, expected))
