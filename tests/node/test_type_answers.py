"""Reports about the subscriptions that a new version of a type affects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from broker.errors import BadQuery
from broker.matching.query.query import Query, parse_query
from broker.matching.schema.schema_difference import Effect, QueryEffect
from broker.node import type_answers
from broker.node.type_answers import SLICE_SECONDS, Subscriber, TypeAnswers, find_subscribers


class StoredSubscription:
    def __init__(self, query: str) -> None:
        self.query = query
        self.namespaces: Mapping[str, str] = {}


class Durables:
    def __init__(self, *queries: str) -> None:
        self.queries = queries

    def all(self) -> Iterator[tuple[str, str, StoredSubscription]]:
        for number, query in enumerate(self.queries):
            yield "c", f"d{number}", StoredSubscription(query)


def test_each_stored_query_is_parsed_once_when_its_turn_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(type_answers, "MAX_QUERIES", 3)
    parsed: list[str] = []

    def parse(text: str, namespaces: Mapping[str, str]) -> Query:
        parsed.append(text)
        if text == "bad":
            raise BadQuery("it is bad")
        return parse_query(text, namespaces)

    durables: Any = Durables("/a", "bad", "/a", "/b", "/c", "/b")
    found = find_subscribers([], durables, None, parse)
    next(found)
    assert parsed == ["/a"]
    rest = [each.query and each.query.text for each in found]
    assert rest == [None, "/a", "/b", None, "/b"]
    assert parsed == ["/a", "bad", "/b"]


def test_a_report_leaves_the_node_time_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    query = parse_query("/a", {})

    def subscribers() -> Iterator[Subscriber]:
        for number in range(3):
            clock.rightNow += 2 * SLICE_SECONDS
            yield Subscriber("c", f"{number}", query)

    unaffected = QueryEffect(Effect.UNAFFECTED)
    monkeypatch.setattr(type_answers, "find_effect", lambda *_: unaffected)
    nothing = cast(Any, None)
    answers = TypeAnswers(nothing, nothing, subscribers, cast(Any, clock))
    report = Deferred.fromCoroutine(answers._find_affected(nothing, named=False))
    for _ in range(3):
        assert not report.called
        # A pause lasts as long as the work before it.
        clock.advance(2 * SLICE_SECONDS)
    result = cast(dict[str, Any], report.result)
    assert result["subscriptions"] == {"unaffected": 3}
