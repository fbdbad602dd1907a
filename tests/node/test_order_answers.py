"""Rights and stacks of questions about the order."""

from __future__ import annotations

from collections.abc import Sequence
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
    questions: list[dict[str, str]] = attrs.field(factory=list)

    def prove(self, question: dict[str, str]) -> str:
        self.questions.append(question)
        return "proof"


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
