"""Present speed of the machine, which varies with other guests of its host."""

from __future__ import annotations

import functools
import time
from typing import Final

from lxml import etree

from benchmarks.harness.flights import flight_documents
from broker.event.event_id import EventIdGenerator

_EVENTS: Final = 2_000
_ROUNDS: Final = 5


def measure_parse() -> float:
    """Return microseconds for one flight event with lxml, the best of some rounds."""
    documents = _documents()
    best = float("inf")
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        for document in documents:
            etree.fromstring(document)
        best = min(best, time.perf_counter() - began)
    return 1e6 * best / _EVENTS


@functools.cache
def _documents() -> list[bytes]:
    return list(flight_documents(EventIdGenerator("publisher", 1), _EVENTS))
