"""Signs of life of the roots, and the paths on which they come."""

from __future__ import annotations

import attrs
from pytest import approx

from plugins.dcp.control import MOST_LEVEL, Beacon, decode_message, encode_message
from plugins.dcp.mesh.beacons import Beacons

MOST_ROOTS = 256


@attrs.define
class Clock:
    """A wall clock, in ms since 1970."""

    now: int = 1_000_000

    def __call__(self) -> int:
        return self.now


def make_root(name: str, clock: Clock) -> Beacons:
    return Beacons(name, clock, is_root=True)


def make_beacon(number: int, root: str = "r", survival: float = 1.0) -> Beacon:
    return Beacon(root, number, 1_000_000, survival, (root,))


def test_the_numbers_of_a_root_rise_through_restarts() -> None:
    clock = Clock()
    root = make_root("r", clock)
    beacons = [root.make() for _ in range(3)]
    assert [each.number - beacons[0].number for each in beacons] == [0, 1, 2]
    assert (beacons[0].root, beacons[0].path, beacons[0].survival) == ("r", ("r",), 1.0)
    # One beacon a second was made by then.
    clock.now += 3_000
    again = make_root("r", clock).make()
    assert again.number > beacons[-1].number and again.sent == 1_003_000


def test_the_first_copy_of_each_beacon_is_passed_on() -> None:
    node = Beacons("n", Clock(), is_root=False)
    onward = node.receive(make_beacon(5), 0.0)
    assert onward is not None and onward.number == 5
    # A copy of another parent, and an earlier one that comes late.
    assert node.receive(make_beacon(5), 0.0) is None
    assert node.receive(make_beacon(4), 0.0) is None
    assert node.receive(make_beacon(5, "r2"), 0.0) is not None
    assert node.receive(make_beacon(6), 0.0) is not None


def test_each_node_adds_its_name_to_the_path() -> None:
    beacon: Beacon | None = make_beacon(1)
    for name in "abc":
        assert beacon is not None
        beacon = Beacons(name, Clock(), is_root=False).receive(beacon, 0.0)
    assert beacon is not None and beacon.path == ("r", "a", "b", "c")
    assert (beacon.root, beacon.sent) == ("r", 1_000_000)


def test_the_loss_of_each_link_counts() -> None:
    node = Beacons("n", Clock(), is_root=False)
    onward = node.receive(make_beacon(1, survival=0.9), 0.2)
    assert onward is not None and onward.survival == approx(0.72)


def test_a_path_of_the_most_names_is_a_message() -> None:
    path = tuple(f"n{number}" for number in range(MOST_LEVEL - 1))
    onward = Beacons("n", Clock(), is_root=False).receive(Beacon("r", 1, 5, 0.5, path), 0.1)
    assert onward is not None and len(onward.path) == MOST_LEVEL
    assert decode_message(encode_message(onward)) == onward


def test_the_delay_of_each_root_is_measured() -> None:
    clock = Clock()
    node = Beacons("n", clock, is_root=False)
    for number, delay, root in ((1, 30, "r"), (2, 50, "r"), (1, 7, "r2"), (2, 999, "r")):
        clock.now = 1_000_000 + delay
        node.receive(make_beacon(number, root), 0.0)
    # A second copy, that came later, does not count.
    assert node.delays == {"r": 50, "r2": 7}


def test_the_number_of_roots_is_bounded() -> None:
    node = Beacons("n", Clock(), is_root=False)
    found = [node.receive(make_beacon(1, f"r{n}"), 0.0) for n in range(MOST_ROOTS + 10)]
    assert [each is not None for each in found] == [True] * MOST_ROOTS + [False] * 10
    assert len(node.delays) == MOST_ROOTS
    assert node.receive(make_beacon(2, "r0"), 0.0) is not None
