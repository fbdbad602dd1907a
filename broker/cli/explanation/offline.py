"""Explanation of a query without a node, with an engine in this process and local DTDs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs
from twisted.internet.task import Clock

from broker.cli.failure import Failure
from broker.dtd.cache import CacheLimits, DtdCache
from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.catalogue_source import CatalogueSource
from broker.dtd.fetch_hint import FetchHint
from broker.dtd.reference import DtdReference
from broker.errors import BrokerError
from broker.event.stream import StreamPattern
from broker.matching.contract import DtdNeeded
from broker.matching.explain.explanation import EventExplanation, Explanation
from broker.matching.query.query import Query, parse_query
from broker.matching.schema.known_types import KnownTypes
from broker.matching.schema.query_advisor import QueryAdvisor
from broker.matching.switch import Switch

#: Events until the engine recognises their shape.
_LEARNING_RUNS: Final = 3


def explain_offline(
    text: str,
    namespaces: Mapping[str, str],
    document: bytes | None,
    pattern: StreamPattern | None,
    folder: Path | None,
) -> dict[str, Any]:
    """Return the answer of a node that has seen only such events.

    `folder` is an additional catalogue. Raises a node's errors for a bad query.
    """
    folders = [] if folder is None else [_catalogue(folder)]
    shipped = Catalogue.load(shipped_folder())
    dtds = DtdCache(shipped, map(CatalogueSource, folders), CacheLimits(), Clock())
    advisor = QueryAdvisor(KnownTypes(dtds, shipped, folders), undescribed=False)
    query = parse_query(text, namespaces)
    explanation = _explain(Switch(dtds, clock=time.perf_counter), dtds, query, document)
    return {
        "explanation": explanation.as_dict(),
        "warnings": list(advisor.find_warnings(query, False)),
        "subscription": None if pattern is None else _subscription_part(pattern, explanation),
        "client": None,
        "network": None,
    }


def _explain(engine: Switch, dtds: DtdCache, query: Query, document: bytes | None) -> Explanation:
    try:
        explanation = engine.explain(query, document)
    except DtdNeeded as needed:
        error = _load(dtds, needed.missing.reference)
        if error is not None:
            refused = EventExplanation(refused=error.to_wire())
            return attrs.evolve(engine.explain(query, None), event=refused)
        explanation = engine.explain(query, document)
    if document is None or explanation.event is None or explanation.event.refused is not None:
        return explanation
    for _ in range(_LEARNING_RUNS):
        engine.match([document])
    return engine.explain(query, document)


def _load(dtds: DtdCache, reference: DtdReference) -> BrokerError | None:
    """Return the error if the DTD can not be loaded."""
    failed: list[Any] = []
    dtds.lookup(reference, FetchHint()).addErrback(lambda failure: failed.append(failure.value))
    if failed and not isinstance(failed[0], BrokerError):
        raise failed[0]
    return failed[0] if failed else None


def _catalogue(folder: Path) -> Catalogue:
    try:
        return Catalogue.load(folder)
    except BrokerError as error:
        raise Failure(f"{folder} is not a catalogue of DTDs: {error}") from None


def _subscription_part(pattern: StreamPattern, explanation: Explanation) -> dict[str, Any]:
    """Without accounts every reader is cleared."""
    fields: dict[str, Any] = {"pattern": pattern.text, "allowed": True}
    event = explanation.event
    if event is not None and event.refused is None:
        fields["stream"] = pattern.matches(event.stream)
        fields["cleared"] = True
    return fields
