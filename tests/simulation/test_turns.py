"""A node that takes each message of a session in a turn of its own does what it otherwise does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.router import session
from broker.testing.simulation import World
from tests.simulation.test_greedy_subscribers import Greedy, settings
from tests.simulation.watching import Publisher, Reader, truths


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """One whose turns are over as soon as they have begun: time stands still in them."""
    monkeypatch.setattr(session, "SECONDS_A_TURN", 0.0)
    monkeypatch.setattr(session, "DOCUMENTS_AT_FIRST", 1)
    with World(1, settings=settings(20)) as made:
        yield made


def test_nothing_is_lost_and_nothing_overtakes(world: World) -> None:
    publisher = Publisher(world, world.client("publisher"))
    reader = Reader(world, world.client("reader"))
    greedy = Greedy(world)
    world.run(1.0)
    for round_ in range(5):
        greedy.ask(10 * round_, 10 * round_ + 10)
        for _ in range(20):
            publisher.publish()
        reader.read()
        world.run(0.001)
    world.run_until(lambda: greedy.answered == 50)
    world.run(1.0)
    reader.read()
    assert (len(greedy.kept), len(greedy.refused)) == (20, 30)
    assert len(reader.events) == 100
    reader.check(truths(world))
    world.check_outcomes()


@pytest.mark.parametrize("turn", [1, 5, 19])
def test_a_connection_that_breaks_between_two_turns_loses_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, turn: int
) -> None:
    inner = session.Session._take_on
    turns = 0

    def cutting(self: session.Session) -> None:
        nonlocal turns
        turns += 1
        if turns == turn:
            world.cut("greedy")
        inner(self)

    greedy = Greedy(world)
    world.run(1.0)
    monkeypatch.setattr(session.Session, "_take_on", cutting)
    greedy.ask(0, 30)
    world.run_until(lambda: greedy.answered == 30)
    assert turns >= 19
    assert (len(greedy.kept), len(greedy.refused)) == (20, 10)
    publisher = Publisher(world, world.client("publisher"))
    world.run(1.0)
    publisher.publish("greedy.x", altitude=4)
    world.run(1.0)
    # For the fifth, `altitude = 4`, alone.
    assert sum(len(each.take_ready()) for each in greedy.kept) == 1
    world.check_outcomes()
