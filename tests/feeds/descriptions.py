"""DTDs of a feed: none, inferred from its payloads, translated from its schema."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lxml import etree

from broker.dtd.derivation.driver import write_driver
from broker.dtd.derivation.inference import infer_dtd
from broker.dtd.derivation.sample_statistics import SampleStatistics
from broker.dtd.derivation.schema_files import load_schema
from broker.dtd.derivation.schema_translation import find_roots, translate_schema
from broker.dtd.reference import DtdReference
from tests.feeds.samples import Feed


def describe(feed: Feed) -> Iterator[tuple[DtdReference, bytes | None]]:
    """Yield types and texts, of which the first is None."""
    yield DtdReference(f"{feed.name}-plain", "1.0"), None
    inferred = DtdReference(f"{feed.name}-inferred", "1.0")
    yield inferred, _infer(feed, inferred)
    if feed.schema is not None:
        imported = DtdReference(f"{feed.name}-imported", "1.0")
        yield imported, _translate(feed, feed.schema, imported)


def _infer(feed: Feed, reference: DtdReference) -> bytes:
    statistics = SampleStatistics()
    for payload in feed.payloads:
        statistics.add_payload(etree.fromstring(payload))
    return write_driver(infer_dtd(statistics, reference)).text.encode()


def _translate(feed: Feed, file: Path, reference: DtdReference) -> bytes:
    schema, _ = load_schema([file])
    roots = find_roots(schema, [etree.fromstring(feed.payloads[0]).tag])
    return translate_schema(schema, roots, reference)[1].text.encode()
