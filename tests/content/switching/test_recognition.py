"""Documents of a batch sorted by their shapes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.content.contract import Accepted
from broker.content.query.query import parse_query
from broker.content.switch import Switch
from broker.dtd.dtd import Dtd
from broker.event.stream import StreamPattern
from tests.content.conftest import KnownDtds

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
        values = shape.values

        def counted(document: bytes, values: Callable[..., object] = values) -> object:
            asked.append((id(values), document))
            return values(document)

        monkeypatch.setattr(shape, "values", counted)
    before = switch.statistics()["recognised"]
    switch.match(documents)
    assert switch.statistics()["recognised"] == before + len(documents)
    assert len(asked) == len(set(asked))


def test_a_shape_that_a_batch_teaches_serves_the_rest_of_it(
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
    said = switch.statistics()
    assert (said["parsed"], said["recognised"]) == (2, 98)
