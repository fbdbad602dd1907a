"""Rights and stacks of questions about the order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import attrs
import pytest

from broker.errors import BrokerError, ClearanceTooLow, NotAllowed, UnknownStack
from broker.event.envelope import SecurityLevel
from broker.event.stream import StreamPattern
from broker.identity import Identity
from broker.identity.identity import anonymous_identity
from broker.identity.rights import Rights
from broker.node.order_answers import OrderAnswers
from broker.wire.messages import Ask


@attrs.define
class Instance:
    instance: str
    proves: bool = True
    patterns: Sequence[StreamPattern] = (StreamPattern.parse("chat.>"),)
    clearance: SecurityLevel = SecurityLevel.MED
    questions: list[object] = attrs.field(factory=list)

    def provides(self, interface: object) -> bool:
        return self.proves

    def ask(self, interface: object, question: Callable[[Instance], object]) -> object:
        return question(self)

    def prove(self, question: dict[str, str]) -> str:
        self.questions.append(question)
        return "proof"

    def change_sites(self, *change: str) -> str:
        self.questions.append(change)
        return "sites"


def answer(instances: list[Instance], identity: Identity | None = None, **arguments: str) -> Any:
    answers = OrderAnswers(lambda: cast(Any, instances))
    asked = Ask(1, "order-proof", arguments)
    return answers.answer_proof(identity or anonymous_identity("c"), asked)


def test_a_question_goes_to_its_stack() -> None:
    one, other, default = Instance("one"), Instance("other"), Instance("mspaces", proves=False)
    found = answer([default, one, other], stack="other", event="c/1/1")
    assert found == {"stack": "other", "proof": "proof"}
    assert (one.questions, other.questions) == ([], [{"event": "c/1/1"}])
    assert answer([default, one], event="c/1/1")["stack"] == "one"


@pytest.mark.parametrize("name", ["", "mspaces", "x"])
def test_a_stack_must_be_named_and_prove_its_order(name: str) -> None:
    instances = [Instance("mspaces", proves=False), Instance("one"), Instance("other")]
    with pytest.raises(UnknownStack, match="one, other"):
        answer(instances, stack=name)
    with pytest.raises(UnknownStack, match="none"):
        answer(instances[:1])


def test_a_proof_needs_the_right_and_the_clearance_for_all_streams() -> None:
    anonymous = anonymous_identity("c")
    refusals: list[tuple[dict[str, Any], type[BrokerError]]] = [
        ({"rights": Rights()}, NotAllowed),
        ({"clearance": SecurityLevel.LOW}, ClearanceTooLow),
    ]
    for changes, error in refusals:
        instance = Instance("one")
        with pytest.raises(error):
            answer([instance], attrs.evolve(anonymous, **changes))
        assert instance.questions == []


def test_a_change_of_the_sites_needs_the_right_to_administer_and_a_group() -> None:
    anonymous, one = anonymous_identity("c"), Instance("one")
    answers = OrderAnswers(lambda: cast(Any, [one, Instance("mspaces", proves=False)]))
    admit = Ask(1, "order-admit", {"stack": "one", "site": "d", "address": "tcp:host=d:port=1"})
    remove = Ask(1, "order-remove", {"stack": "one", "site": "d"})
    for answer_change, ask in ((answers.answer_admit, admit), (answers.answer_remove, remove)):
        assert answer_change(anonymous, ask) == "sites"
        with pytest.raises(NotAllowed):
            answer_change(attrs.evolve(anonymous, administer=False), ask)
    assert one.questions == [("admit", "d", "tcp:host=d:port=1"), ("remove", "d", "")]
    with pytest.raises(UnknownStack, match="of these groups it is: one"):
        answers.answer_admit(anonymous, Ask(1, "order-admit", {"stack": "mspaces", "site": "d"}))
