"""What a change leaves to the next match: what it has to do with it, whatever else is asked."""

from __future__ import annotations

import pytest

from broker.dtd.dtd import Dtd
from broker.matching.contract import Accepted
from tests.matching.conftest import event
from tests.matching.engine.engine_pair import EnginePair
from tests.matching.partial.test_bounds import calls_of

STATES = 60
#: Calls of Python functions: the match itself that a change leaves, over the usual.
CALLS_OF_A_CHANGE = 20
#: The same when a question has to be asked that was not, or no more.
CALLS_OF_A_QUESTION = 5 * STATES

DOCUMENT = event(
    "<flight><id>1</id>{}</flight>".format(
        "".join(
            f'<leg status="s{n}"><altitude>{n}</altitude><speed>2</speed></leg>'
            for n in range(STATES)
        )
    ).encode()
)


@pytest.fixture
def twins(flight_dtd: Dtd) -> EnginePair:
    """With many questions about constants of a known shape."""
    twins = EnginePair(flight_dtd)
    for state in range(1, STATES):
        twins.subscribe(f'//leg[@status="s{state}" and altitude > {state - 1}]')
        twins.subscribe(f'//leg[@status="s{state}" and altitude > 1 and speed = 3]')
        twins.subscribe(f'//leg[@status="s{state}" and speed = 2]')
    for _ in range(3):
        twins.match([DOCUMENT] * 2)
    assert twins.switch.statistics()["recognised"] > 0
    return twins


def calls_of_a_match(twins: EnginePair) -> int:
    """Of the document's, whose verdict is right."""
    calls = calls_of(lambda: twins.switch.match([DOCUMENT]))
    (verdict,) = twins.match([DOCUMENT])
    assert isinstance(verdict, Accepted) and verdict.subscriptions
    return calls


@pytest.mark.parametrize(
    "query",
    [
        '//leg[@status="s7" and altitude > 0.5]',
        '//leg[@status="s7" and altitude > 1 and speed = 5]',
        '//leg[@status="elsewhere" and altitude > 0.5]',
        '//leg[@status="s8" and speed = 2.5]',
        '//leg[@status="elsewhere" and speed = 2.5]',
    ],
)
def test_a_change_under_other_constants_costs_the_next_match_nothing(
    twins: EnginePair, query: str
) -> None:
    usual = calls_of_a_match(twins)
    number = twins.subscribe(query)
    assert calls_of_a_match(twins) <= usual + CALLS_OF_A_CHANGE
    twins.unsubscribe(number)
    assert calls_of_a_match(twins) <= usual + CALLS_OF_A_CHANGE


@pytest.mark.parametrize(
    "query", ['//leg[@status="s0" and altitude > -1]', '//leg[@status="s0" and speed = 2]']
)
def test_a_constant_that_nobody_asked_for_is_asked_as_long_as_somebody_does(
    twins: EnginePair, query: str
) -> None:
    usual = calls_of_a_match(twins)
    number = twins.subscribe(query)
    assert calls_of_a_match(twins) <= usual + CALLS_OF_A_QUESTION
    (verdict,) = twins.match([DOCUMENT])
    assert isinstance(verdict, Accepted) and number in verdict.subscriptions
    twins.unsubscribe(number)
    assert calls_of_a_match(twins) <= usual + CALLS_OF_A_QUESTION
    assert calls_of_a_match(twins) <= usual + CALLS_OF_A_CHANGE
