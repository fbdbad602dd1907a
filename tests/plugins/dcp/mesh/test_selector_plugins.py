"""Parent selectors of other packages, and faulty ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from twisted.plugin import IPlugin
from zope.interface import implementer

from broker.testing.datagram_network import DatagramFaults
from plugins.dcp.mesh.selection import Candidate, GuardedSelector, IParentSelector
from plugins.dcp.options import DcpOptions
from plugins.dcp.settings import DcpSettings
from tests.drop_in import DropIn
from tests.simulation.dcp.mesh import ALL, Mesh

ROOTS = ("a1", "a2", "a3", "a4")
OFFERS = [Candidate(name, 0, {"host": name}, 0.1) for name in ROOTS]
DROP_IN = """
from twisted.plugin import IPlugin
from zope.interface import implementer
from plugins.dcp.mesh.selection import IParentSelector

@implementer(IPlugin, IParentSelector)
class LastName:
    name = "last-name"
    def rank(self, candidate, parents):
        return [-ord(candidate.name[-1])]

last_name = LastName()
"""


@implementer(IPlugin, IParentSelector)
class Faulty:
    name = "faulty"

    def __init__(self, answer: Callable[[Candidate], Any]) -> None:
        self.answer = answer

    def rank(self, candidate: Candidate, parents: Sequence[Candidate]) -> Any:
        return self.answer(candidate)


def divide(candidate: Candidate) -> object:
    return [candidate.level / candidate.level]


def connect(mesh: Mesh) -> list[str]:
    """Return the names of the parents of a new leaf, which gets each event."""
    for name in ROOTS:
        mesh.add_root(name)
    mesh.run(2.0)
    leaf = mesh.add("c1", children=0)
    leaf.subscribe("s", ALL)
    mesh.run(5.0)
    mesh.publish("o/asdi.>", 1, [1, 2, 3])
    mesh.run(1.0)
    mesh.check_ends()
    assert mesh.violations == []
    return sorted(parent.candidate.name for parent in leaf.router.parents)


def test_a_selector_of_another_package_chooses_the_parents(drop_in: DropIn) -> None:
    drop_in("zz_last_name", DROP_IN)
    options = DcpOptions(udp="127.0.0.1:1", roots=("127.0.0.1:2",), selector="last-name")
    # The leaf asks four nodes at once, and chooses two of them.
    mesh = Mesh(1, options.make_settings(clearance=2), DatagramFaults(), ROOTS)
    assert connect(mesh) == ["a3", "a4"]
    assert mesh.nodes["c1"].reported == []


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (divide, "ZeroDivisionError: division by zero"),
        (lambda _: None, "TypeError: 'NoneType' object is not iterable"),
        (lambda _: "low", "ValueError: a rank of other things than numbers: 'low'"),
        (lambda _: [float("nan")], "ValueError: a rank of other things than numbers: [nan]"),
        (lambda _: [1000 * [1]], "ValueError: a rank of other things than numbers"),
    ],
    ids=["raises", "nothing", "text", "not-a-number", "list"],
)
def test_the_default_chooses_where_a_selector_fails(
    answer: Callable[[Candidate], Any], reason: str
) -> None:
    guarded = GuardedSelector(Faulty(answer))
    assert guarded.find_alarm(0.0) == ""
    assert guarded.select(OFFERS, (), 2, 5.0) == GuardedSelector().select(OFFERS, (), 2, 5.0)
    alarm = guarded.find_alarm(6.0)
    assert alarm.startswith(f"the selector faulty failed, and diverse chose the parents: {reason}")
    assert len(alarm) < 300
    assert guarded.find_alarm(65.0) == ""


def test_the_error_of_a_selector_is_an_alarm_of_a_node_that_works() -> None:
    mesh = Mesh(1, DcpSettings(selector=Faulty(divide)), DatagramFaults(), ROOTS)
    assert connect(mesh) == ["a1", "a2"]
    (reported,) = [text for _, text in mesh.nodes["c1"].reported]
    assert reported.startswith("the selector faulty failed, and diverse chose the parents: Zero")
