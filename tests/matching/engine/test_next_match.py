"""Work that a changed subscription leaves to the next match."""

from __future__ import annotations

import pytest

from broker.dtd.dtd import Dtd
from broker.matching.contract import Accepted
from tests.matching.conftest import event
from tests.matching.engine.engine_pair import EnginePair
from tests.matching.partial.test_bounds import calls_of

STATES = 60
#: Additional Python calls of the match after a change.
CALLS_OF_A_CHANGE = 20
#: The same if a look-up was added or removed.
CALLS_OF_A_NEW_LOOKUP = 5 * STATES

DOCUMENT = event(
    "<flight><id>1</id>{}</flight>".format(
        "".join(
            f'<leg status="s{n}"><altitude>{n}</altitude><speed>2</speed></leg>'
            for n in range(STATES)
        )
    ).encode()
)


@pytest.fixture
def engines(flight_dtd: Dtd) -> EnginePair:
    """An engine with many look-ups of constants of a known shape."""
    engines = EnginePair(flight_dtd)
    for state in range(1, STATES):
        engines.subscribe(f'//leg[@status="s{state}" and altitude > {state - 1}]')
        engines.subscribe(f'//leg[@status="s{state}" and altitude > 1 and speed = 3]')
        engines.subscribe(f'//leg[@status="s{state}" and speed = 2]')
    for _ in range(3):
        engines.match([DOCUMENT] * 2)
    assert engines.switch.statistics()["recognised"] > 0
    return engines


def calls_of_a_match(engines: EnginePair) -> int:
    """Return the calls of a match, after checking its verdict."""
    calls = calls_of(lambda: engines.switch.match([DOCUMENT]))
    (verdict,) = engines.match([DOCUMENT])
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
    engines: EnginePair, query: str
) -> None:
    usual = calls_of_a_match(engines)
    number = engines.subscribe(query)
    assert calls_of_a_match(engines) <= usual + CALLS_OF_A_CHANGE
    engines.unsubscribe(number)
    assert calls_of_a_match(engines) <= usual + CALLS_OF_A_CHANGE


@pytest.mark.parametrize(
    "query", ['//leg[@status="s0" and altitude > -1]', '//leg[@status="s0" and speed = 2]']
)
def test_a_new_constant_is_looked_up_while_a_query_uses_it(engines: EnginePair, query: str) -> None:
    usual = calls_of_a_match(engines)
    number = engines.subscribe(query)
    assert calls_of_a_match(engines) <= usual + CALLS_OF_A_NEW_LOOKUP
    (verdict,) = engines.match([DOCUMENT])
    assert isinstance(verdict, Accepted) and number in verdict.subscriptions
    engines.unsubscribe(number)
    assert calls_of_a_match(engines) <= usual + CALLS_OF_A_NEW_LOOKUP
    assert calls_of_a_match(engines) <= usual + CALLS_OF_A_CHANGE
