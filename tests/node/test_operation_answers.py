"""Rights of operations on a stack, and answers of other nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import attrs
import pytest
from twisted.internet.defer import Deferred

from broker.cluster.network_question import GatheredAnswers
from broker.errors import (
    BadName,
    Closed,
    NotAllowed,
    NotConnected,
    UnknownDestination,
    UnknownStack,
)
from broker.identity.identity import anonymous_identity
from broker.node.operation_answers import OPERATE_QUESTION, OperationAnswers
from broker.wire.codec import pack
from broker.wire.messages import Ask


@attrs.define
class Instance:
    instance: str = "mesh"
    actions: list[str] = attrs.field(factory=list)
    is_operated: bool = True

    def provides(self, interface: object) -> bool:
        return self.is_operated

    def ask(self, interface: object, question: Callable[[Instance], object]) -> object:
        return question(self)

    def operate(self, action: str) -> Mapping[str, object]:
        if action == "wrong":
            raise BadName("wrong")
        self.actions.append(action)
        return {"did": action}


@attrs.define
class Others:
    """Other nodes, each with `OperationAnswers` of its own, or with an answer."""

    own_address: str = "one/a"
    nodes: dict[str, Any] = attrs.field(factory=dict)
    silent: list[str] = attrs.field(factory=list)
    answerer: Callable[[bytes], Any] | None = None

    def register_answerer(self, what: str, answerer: Callable[[bytes], Any]) -> None:
        assert what == OPERATE_QUESTION
        self.answerer = answerer

    async def ask_all_nodes(self, what: str, content: bytes, rank: int = 0) -> GatheredAnswers:
        gathered = GatheredAnswers(silent=list(self.silent))
        for address, answer in self.nodes.items():
            found = answer(content) if callable(answer) else (answer, 0)
            if found is None:
                gathered.silent.append(address)
            else:
                gathered.add(address, *found)
        return gathered


@attrs.define
class Network:
    """Node `a`, which is asked, and `b` with another instance of the same name."""

    a: Instance = attrs.field(factory=Instance)
    b: Instance = attrs.field(factory=Instance)
    others: Others = attrs.field(factory=Others)
    answers: Any = None

    def __attrs_post_init__(self) -> None:
        remote = Others("one/b")
        OperationAnswers("b", lambda: cast(Any, [self.b]), remote)
        self.others.nodes["one/b"] = remote.answerer
        default = Instance("mspaces", is_operated=False)
        self.answers = OperationAnswers("a", lambda: cast(Any, [default, self.a]), self.others)

    def ask(self, identity: Any = None, **arguments: str) -> Any:
        found: list[Any] = []
        asked = Ask(1, "operate", arguments)
        answer: Deferred[Any] = self.answers.answer(identity or anonymous_identity("c"), asked)
        answer.addBoth(found.append)
        if isinstance(error := getattr(found[0], "value", None), Exception):
            raise error
        return found[0]


def test_each_node_with_the_stack_is_shown() -> None:
    network = Network(others=Others(silent=["two/"]))
    network.others.nodes["one/without"] = b""
    assert network.ask() == {
        "stack": "mesh",
        "nodes": [{"node": "one/a", "did": "show"}, {"node": "one/b", "did": "show"}],
        "silent": ["two/"],
    }


def test_an_action_is_for_its_node_only() -> None:
    network = Network()
    for name in ("b", "one/b"):
        answer = network.ask(stack="mesh", node=name, action="leave")
        assert answer["nodes"] == [{"node": "one/b", "did": "leave"}]
    assert (network.a.actions, network.b.actions) == ([], ["leave", "leave"])
    assert network.ask(node="a", action="leave")["nodes"] == [{"node": "one/a", "did": "leave"}]


def test_without_the_right_to_administer_nobody_is_asked() -> None:
    network = Network()
    identity = attrs.evolve(anonymous_identity("c"), administer=False)
    for arguments in ({}, {"node": "b", "action": "leave"}):
        with pytest.raises(NotAllowed):
            network.ask(identity, **arguments)
    assert network.a.actions == network.b.actions == []


def test_errors_name_the_known_nodes_and_stacks() -> None:
    network = Network(others=Others(silent=["two/c", "two/d"]))
    for arguments, error, text in (
        (
            {"node": "x", "action": "leave"},
            UnknownDestination,
            "its nodes: a, b; without an answer: two/c",
        ),
        ({"node": "c", "action": "leave"}, NotConnected, "does not answer"),
        ({"stack": "x"}, UnknownStack, "this node is: mesh; without an answer"),
        ({"stack": "mspaces"}, UnknownStack, "this node is: mesh"),
        ({"action": "leave"}, BadName, "needs the name of a node"),
        ({"node": "b", "action": "wrong"}, BadName, "wrong"),
    ):
        with pytest.raises(error, match=text):
            network.ask(**arguments)
    network.a.is_operated = False
    with pytest.raises(
        UnknownStack, match="no stack of this node is a mesh, or can be operated otherwise"
    ):
        network.ask()
    # Another node has it.
    assert network.ask(stack="mesh")["nodes"] == [{"node": "one/b", "did": "show"}]


def test_a_malformed_question_or_answer_is_no_answer() -> None:
    network = Network()
    assert network.others.answerer is not None
    for content in (b"", b"\xc1", pack(("mesh", "leave")), pack((1, 2, 3))):
        assert network.others.answerer(content) is None
    for content in (b"\xc1", pack(("c",)), pack(("c", None, 3)), pack(("c", None, None, 0))):
        network.others.nodes["one/c"] = content
        assert network.ask()["silent"] == ["one/c"]
    error = Closed("the stack mesh has stopped").to_wire()
    network.others.nodes["one/c"] = pack(("c", error, None))
    with pytest.raises(Closed):
        network.ask()


def test_a_lone_node_answers_for_itself() -> None:
    network = Network()
    network.answers = OperationAnswers("a", lambda: cast(Any, [network.a]), None)
    assert network.ask() == {
        "stack": "mesh",
        "nodes": [{"node": "a", "did": "show"}],
        "silent": [],
    }
    with pytest.raises(UnknownDestination, match="its nodes: a"):
        network.ask(node="b", action="leave")
