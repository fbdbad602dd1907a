"""Undecided queries give the same result on filled trees as on parsed documents."""

from __future__ import annotations

from typing import Any

import pytest

from broker.dtd.dtd import Dtd
from broker.matching.engine import filled_event
from broker.matching.examiner import Examiner
from tests.matching.conftest import event
from tests.matching.engine.engine_pair import EnginePair

#: No shape decides these, since the number of nodes depends on values.
QUERIES = (
    "count(//leg[altitude > 3]) > 0",
    "count(/flight/leg[@status = 'active']) = 1",
    "sum(//leg[altitude > 3]/altitude) = 9",
    "count(//*[. = 'x y']) > 0",
    "count(//*[contains(., '\n')]) > 0",
    "count(/Mspaces:Event/Mspaces:EventId/*[. = '3']) > 0",
    "count(/Mspaces:Event/*[. = 'né']) > 0 or count(//leg[altitude > 8]) > 0",
    "count(//leg[altitude > $SequenceNumber]) > 0",
    "count(//@*[. = 'scheduled']) > 0",
    "count(/..//node()[. = '']) > 0",
)
#: At least the nodes of all trees of `documents`.
MANY = 5_000
LEG = '<leg status="{}"><altitude>{}</altitude></leg>'


def documents() -> list[bytes]:
    """Return documents of three alternating shapes, the last without a payload."""
    found = []
    for number in range(1, 13):
        summary = ("x y", "né", "2")[number % 3]
        legs = LEG.format(("active", "", "né")[number % 3], number)
        legs += LEG.format("active", (number, "x\ty", "x\ny", "3.5")[number % 4])
        for payload in (
            f"<flight><id>{number}</id>{legs}</flight>".encode(),
            f"<flight><id>x y</id>{LEG.format('none', number)}</flight>".encode(),
            None,
        ):
            found.append(event(payload, sequence_number=number, summary=summary))
    return found


@pytest.fixture
def rereadings(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Records recognised documents that were parsed."""
    found: list[bytes] = []
    reread = Examiner.parse_recognised

    def noted(self: Any, document: bytes, *others: Any) -> Any:
        found.append(document)
        return reread(self, document, *others)

    monkeypatch.setattr(Examiner, "parse_recognised", noted)
    return found


@pytest.mark.parametrize("room", [MANY + 1, 50, 0])
def test_results_equal_the_references(
    flight_dtd: Dtd, rereadings: list[bytes], monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    monkeypatch.setattr(filled_event, "MAX_NODES", room)
    engines = EnginePair(flight_dtd)
    for query in QUERIES:
        engines.subscribe(query)
    for _ in range(2):
        for document in documents():
            engines.match([document])
    assert engines.matched > 50
    recognised = engines.count("recognised")
    engines.match(documents())
    assert engines.count("recognised") > recognised
    assert engines.count("undecided") > 100
    # One parse for each shape, if all trees can be stored.
    assert (len(rereadings) <= engines.count("shapes")) == (room > MANY)


def test_fillable_trees_are_dropped_with_their_shapes(flight_dtd: Dtd) -> None:
    engines = EnginePair(flight_dtd)
    engines.subscribe(QUERIES[0])
    for _ in range(3):
        engines.match(documents())
    switch = engines.switch
    assert 0 < len(switch._fillable_trees._trees) <= len(switch._shapes)
    for shape in list(switch._shapes):
        switch._shapes.drop_shape(shape)
    assert (switch._fillable_trees._trees, switch._fillable_trees._nodes) == ({}, 0)
