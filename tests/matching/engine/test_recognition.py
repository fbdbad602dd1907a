"""Recognition of a batch's documents by their shapes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.dtd.dtd import Dtd
from broker.event.stream import StreamPattern
from broker.matching.contract import Accepted
from broker.matching.query.query import parse_query
from broker.matching.switch import Switch
from tests.matching.conftest import KnownDtds

EVERYWHERE = StreamPattern.parse(">")
ONE = b"<flight><id>%d</id></flight>"
OTHER = b"<flight><id>%d</id><remark>r%d</remark></flight>"


def test_a_document_is_compared_with_a_shape_once(
    flight_dtd: Dtd, make_event: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    switch = Switch(KnownDtds(flight_dtd), clock=lambda: 0.0)
    numbers = range(1, 9)
    documents = [
        make_event(payload, sequence_number=n)
        for n in numbers
        for payload in (ONE % n, OTHER % (n, n))
    ]
    for document in documents:
        switch.match([document])
    assert switch.statistics()["shapes"] == 2
    asked: list[tuple[int, bytes]] = []
    for shape in switch._shapes:
        values = shape.extract_values

        def counted(document: bytes, values: Callable[..., object] = values) -> object:
            asked.append((id(values), document))
            return values(document)

        monkeypatch.setattr(shape, "extract_values", counted)
    before = switch.statistics()["recognised"]
    switch.match(documents)
    assert switch.statistics()["recognised"] == before + len(documents)
    assert len(asked) == len(set(asked))


def test_a_shape_learnt_in_a_batch_recognises_the_rest_of_it(
    flight_dtd: Dtd, make_event: Callable[..., bytes]
) -> None:
    switch = Switch(KnownDtds(flight_dtd), clock=lambda: 0.0)
    wanted = switch.subscribe(EVERYWHERE, parse_query("/flight/id > 40 and /flight/id < 45"))
    documents = [make_event(ONE % n, sequence_number=n) for n in range(1, 101)]
    verdicts = switch.match(documents)
    accepted = [each for each in verdicts if isinstance(each, Accepted)]
    assert len(accepted) == len(documents)
    matching = [at for at, each in enumerate(accepted, 1) if wanted in each.subscriptions]
    assert matching == [41, 42, 43, 44]
    statistics = switch.statistics()
    assert (statistics["parsed"], statistics["recognised"]) == (2, 98)


def test_a_type_whose_documents_are_recognised_learns_a_new_shape_at_first_sight(
    flight_dtd: Dtd, make_event: Callable[..., bytes]
) -> None:
    switch = Switch(KnownDtds(flight_dtd), clock=lambda: 0.0)
    wanted = switch.subscribe(EVERYWHERE, parse_query("//remark = 'r3' or //remark = 'r5'"))
    undecided = switch.subscribe(EVERYWHERE, parse_query("//remark[count(//remark[. > 0])] = 'x'"))
    switch.match([make_event(ONE % n, sequence_number=n) for n in range(1, 101)])
    before = switch.statistics()
    matching = []
    for n in range(1, 7):
        [verdict] = switch.match([make_event(OTHER % (n, n), sequence_number=n)])
        assert isinstance(verdict, Accepted) and undecided not in verdict.subscriptions
        matching += [n] * (wanted in verdict.subscriptions)
    assert matching == [3, 5]
    after = switch.statistics()
    assert (after["shapes"], after["parsed"] - before["parsed"]) == (2, 1)


def test_the_first_event_of_a_new_shape_is_matched_by_it(
    flight_dtd: Dtd, make_event: Callable[..., bytes]
) -> None:
    switch = Switch(KnownDtds(flight_dtd), clock=lambda: 0.0)
    wanted = switch.subscribe(EVERYWHERE, parse_query("//remark = 'r7'"))
    switch.match([make_event(ONE % n, sequence_number=n) for n in range(1, 101)])
    [verdict] = switch.match([make_event(OTHER % (7, 7), sequence_number=7)])
    assert isinstance(verdict, Accepted) and verdict.subscriptions == (wanted,)
    assert switch.statistics()["shapes"] == 2
