"""DTDs of a job: texts of the archive, compiled once, never fetched (X9)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from twisted.internet.task import Clock

from broker.archive.archive import Archive
from broker.dtd.cache import CacheLimits, DtdCache
from broker.dtd.catalogue import Catalogue
from broker.dtd.dtd import Dtd
from broker.dtd.reference import DtdReference
from broker.errors import BadDtd, BrokerError

#: All DTDs of a job stay loaded.
_LIMITS: Final = CacheLimits(max_fetched=16_384, max_fetched_bytes=1 << 30)


def read_dtd_texts(
    archive: Archive, catalogue: Catalogue, references: Iterable[DtdReference]
) -> tuple[dict[DtdReference, bytes], list[str]]:
    """Return self-contained texts, and the problems with others.

    The catalogue supplies texts that the archive lacks: a type and version mean one thing (T26).
    """
    texts: dict[DtdReference, bytes] = {}
    problems: list[str] = []
    for reference in sorted(set(references)):
        try:
            texts[reference] = archive.read_dtd(reference)
        except BrokerError as error:
            own = catalogue.read(reference.public_id, reference.system_id)
            if own is None or reference.variant:
                problems.append(f"{reference}: {error}")
            else:
                texts[reference] = Dtd.load(reference, own, catalogue.read).text
    return texts, problems


class JobDtds:
    def __init__(self, texts: Mapping[DtdReference, bytes]) -> None:
        nothing = Catalogue(Path(), {}, {})
        self.cache = DtdCache(nothing, [], _LIMITS, Clock())
        self.undescribed: set[DtdReference] = set()
        self.problems: list[str] = []
        for reference, text in texts.items():
            try:
                self.cache.add(reference, text)
            except BadDtd as error:
                self.problems.append(f"{reference}: {error}")

    def check_types(self, types: Iterable[Sequence[str]]) -> None:
        """Record which (name, version) pairs have no DTD."""
        for name, version in types:
            reference = DtdReference(name, version)
            if self.cache.get(reference) is None:
                self.undescribed.add(reference)
