"""Places that a node offers to children."""

from __future__ import annotations

from pytest import approx

from plugins.dcp.control import MOST_LEVEL, Join
from plugins.dcp.mesh.admission import Admission
from tests.plugins.dcp.recording_connection import RecordingConnection


def make_connection(number: int = 1) -> RecordingConnection:
    return RecordingConnection(f"c{number}", number, is_dialled=False)


class Node:
    """A node of level 3, with children."""

    def __init__(self, most_children: int = 100, children: int = 0) -> None:
        self.core = Admission(most_children)
        self.children = children
        self.level = 3

    def ask(
        self,
        connection: RecordingConnection | None = None,
        level: int = 0,
        now: float = 0.0,
        *,
        refusal: str = "",
    ) -> str:
        """Return the reason of a refusal."""
        connection = connection or make_connection()
        return self.core.reserve(
            *(connection, Join(str(connection.peer), level), self.level, self.children, now),
            refusal=refusal,
        )


# ------------------------------------------------------------------ refusals


def test_a_node_without_parents_is_not_ready() -> None:
    node = Node()
    assert node.ask(refusal="not ready") == "not ready"
    assert node.ask() == "" and node.core.refusals == {"not ready": 1}


def test_the_level_is_below_that_of_the_node_that_asks() -> None:
    node = Node()
    assert [node.ask(level=level) for level in (1, 2, 3, 4, 32)] == [*["level"] * 3, "", ""]
    # A node without children has no level yet.
    assert node.ask(level=0) == "" and node.core.refusals == {"level": 3}


def test_no_node_is_below_the_greatest_level() -> None:
    node = Node()
    node.level = MOST_LEVEL
    assert node.ask() == "level"
    node.level -= 1
    assert node.ask() == ""


def test_children_and_reserved_places_are_the_capacity() -> None:
    node = Node(most_children=3, children=1)
    connections = [make_connection(number) for number in range(4)]
    assert [node.ask(each) for each in connections] == ["", "", "capacity", "capacity"]
    node.core.remove(connections[0])
    assert [node.ask(each) for each in connections[2:]] == ["", "capacity"]
    assert Node(most_children=0).ask() == "capacity"


def test_more_than_50_joins_a_second_are_busy() -> None:
    node = Node(most_children=1_000)

    def ask_often(count: int, now: float) -> int:
        return sum(node.ask(make_connection(1), now=now) == "" for _ in range(count))

    assert ask_often(80, 0.0) == 50 and node.core.refusals == {"busy": 30}
    assert ask_often(80, 0.5) == 25
    # They do not add up for longer.
    assert ask_often(80, 60.0) == 50


# ------------------------------------------------------------------ places


def test_a_place_is_reserved_for_2_s() -> None:
    node = Node()
    first, second = make_connection(1), make_connection(2)
    assert node.core.next_timeout() is None
    node.ask(first, now=10.0)
    node.ask(second, now=10.5)
    assert first in node.core and node.core.next_timeout() == approx(12.0)
    assert node.core.take_expired(11.9) == []
    assert node.core.take_expired(12.0) == [first] and first not in node.core
    assert second in node.core and node.core.next_timeout() == approx(12.5)


def test_a_place_is_taken_once() -> None:
    node = Node()
    connection = make_connection(7)
    node.ask(connection, level=5)
    assert node.core.take(connection, node.level) == (Join("c7", 5), "")
    assert connection not in node.core and node.core.take_expired(99.0) == []


def test_the_level_is_checked_again_when_a_place_is_taken() -> None:
    node = Node()
    free, bound = make_connection(1), make_connection(2)
    node.ask(free)
    node.ask(bound, level=5)
    # This node's level has risen since the offer.
    assert node.core.take(bound, 5) == (Join("c2", 5), "level")
    assert node.core.take(free, 5) == (Join("c1", 0), "")
    assert bound not in node.core
