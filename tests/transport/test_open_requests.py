from __future__ import annotations

from collections.abc import Callable

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from broker.transport.open_requests import OpenRequests


def test_a_request_ends_with_its_first_answer() -> None:
    clock = Clock()
    requests = OpenRequests[tuple[str, int], str](clock, 8)
    answers: list[str | None] = []
    requests.add(("peer", 1), 5.0).addCallback(answers.append)
    assert not requests.settle(("peer", 2), "of another request")
    assert not requests.settle(("other", 1), "of another peer")
    assert requests.settle(("peer", 1), "first")
    assert not requests.settle(("peer", 1), "repeated")
    assert answers == ["first"]
    assert not clock.getDelayedCalls()


def test_a_request_without_an_answer_ends_after_its_time() -> None:
    clock = Clock()
    requests = OpenRequests[int, str](clock, 8)
    answers: list[str | None] = []
    for number, seconds in ((1, 2.0), (2, 1.0), (3, None)):
        requests.add(number, seconds).addCallback(answers.append)
    clock.advance(1.0)
    assert (answers, [number in requests for number in (1, 2, 3)]) == ([None], [True, False, True])
    clock.advance(1.0)
    assert not requests.settle(1, "late") and not requests.settle(2, "late")
    assert requests.settle(3, "in time")
    assert answers == [None, None, "in time"]


def test_an_ended_request_may_be_added_again_by_its_receiver() -> None:
    requests = OpenRequests[int, str](Clock(), 8)
    answers: list[str | None] = []

    async def ask() -> None:
        while (answer := await requests.add(1, 1.0)) != "fit":
            answers.append(answer)

    asking = Deferred.fromCoroutine(ask())
    assert requests.settle(1, "unfit") and requests.settle(1, "fit")
    assert asking.called and answers == ["unfit"]


def test_a_full_table_has_room_after_an_answer() -> None:
    requests = OpenRequests[int, str](Clock(), 2)
    requests.add(1, 1.0)
    assert not requests.is_full
    requests.add(2, 1.0)
    assert requests.is_full
    requests.settle(1, "answer")
    assert not requests.is_full


@pytest.mark.parametrize("seconds", [5.0, None])
def test_all_requests_end_when_the_peer_is_gone(seconds: float | None) -> None:
    clock = Clock()
    requests = OpenRequests[int, str](clock, 8)
    answers: list[tuple[int, str | None]] = []

    def record(number: int) -> Callable[[str | None], None]:
        return lambda answer: answers.append((number, answer))

    for number in (1, 2):
        requests.add(number, seconds).addCallback(record(number))
    requests.settle_all()
    assert answers == [(1, None), (2, None)]
    assert not clock.getDelayedCalls()
