from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, cast

import attrs
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from broker.cluster import network_question
from broker.cluster.address import Address, UnitPath
from broker.cluster.network_question import ANSWER_TIME, NetworkQuestions, Question, Reply

HERE, ASKER, SILENT = (Address(("c",), name) for name in ("here", "asker", "silent"))
FOREVER = 10**15


@attrs.define
class Messenger:
    """All members are reachable, and none answers."""

    own_address: Address | None = HERE
    sent: list[Any] = attrs.field(factory=list)
    listeners: dict[type, Callable[[Any], object]] = attrs.field(factory=dict)
    numbers: count[int] = attrs.field(factory=count)

    def add_listener(self, kind: type, listener: Callable[[Any], object]) -> None:
        self.listeners[kind] = listener

    def send(self, message: Any, attempt: int = 0) -> None:
        self.sent.append(message)

    def take_sent(self, kind: type) -> list[Any]:
        found, self.sent = [each for each in self.sent if isinstance(each, kind)], []
        return found

    def is_reachable(self, address: Address) -> bool:
        return True

    def next_request_number(self) -> int:
        return next(self.numbers)

    def list_members(self) -> Sequence[Address]:
        return [ASKER, SILENT]

    def list_absent_members(self) -> Sequence[Address]:
        return []

    def gateways_by_unit(self) -> Mapping[UnitPath, Sequence[Address]]:
        return {}


@pytest.fixture
def messenger() -> Messenger:
    return Messenger()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def questions(messenger: Messenger, clock: Clock) -> NetworkQuestions:
    made = NetworkQuestions(cast(Any, messenger), clock)
    made.register_answerer("topic", lambda _: (b"mine", 0))
    return made


def receive(messenger: Messenger, number: int, unit: UnitPath | None = ("c",)) -> None:
    question = Question(HERE, ASKER, 8, number, "topic", b"", unit, FOREVER, 0)
    messenger.listeners[Question](question)


@pytest.mark.usefixtures("questions")
def test_a_question_for_another_node_ends_soon_whatever_its_time(
    messenger: Messenger, clock: Clock
) -> None:
    receive(messenger, 7)
    passed_on = messenger.take_sent(Question)
    assert [each.target for each in passed_on] == [ASKER, SILENT]
    assert all(each.within < ANSWER_TIME for each in passed_on)
    clock.advance(ANSWER_TIME / 1000)
    (reply,) = messenger.take_sent(Reply)
    assert set(reply.silent) == {str(ASKER), str(SILENT)}
    assert dict(reply.answers) == {str(HERE): b"mine"}
    assert not clock.getDelayedCalls()


def test_questions_for_other_nodes_leave_room_for_those_of_this_one(
    messenger: Messenger, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_question, "MOST_OPEN", 8)
    questions = NetworkQuestions(cast(Any, messenger), clock)
    questions.register_answerer("topic", lambda _: (b"mine", 0))
    for number in range(4):
        receive(messenger, number)
    assert len(messenger.take_sent(Question)) == 4
    # This node still answers for itself, and asks its own questions.
    receive(messenger, 4, None)
    assert len(messenger.take_sent(Reply)) == 1
    asked = Deferred.fromCoroutine(questions.ask_all_nodes("topic", b""))
    assert len(messenger.take_sent(Question)) == 2
    clock.advance(ANSWER_TIME / 1000)
    found: list[Any] = []
    asked.addCallback(found.append)
    assert set(found[0].silent) == {str(ASKER), str(SILENT)}
