from __future__ import annotations

from collections import deque

import pytest

from broker.errors import (
    Overloaded,
    UnknownType,
)
from broker.wire.messages import Published
from tests.ingest.input_fakes import ODD, Setting


@pytest.fixture
def setting() -> Setting:
    return Setting()


def numbers(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last + 1)]


def logged(setting: Setting) -> list[list[bytes]]:
    return [[event.document for event in events] for events, _ in setting.log.waiting]


def test_many_small_batches_are_matched_and_logged_together(setting: Setting) -> None:
    for number in range(1, 101):
        setting.add(number, str(number))
    setting.input.ingest_waiting(setting.publisher, 1_000)
    assert setting.matcher.calls == [100]
    assert [len(documents) for documents in logged(setting)] == [100]
    setting.log.commit()
    assert setting.told == [("Published", number) for number in range(1, 101)]


def test_a_portion_may_end_within_a_batch(setting: Setting) -> None:
    setting.most = 10
    for number in range(4):
        setting.add(number, *numbers(6 * number + 1, 6 * number + 6))
    setting.take_all(setting.publisher)
    assert setting.matcher.calls == [10, 10, 4]
    assert [b"".join(part) for part in logged(setting)] == [
        "".join(numbers(*ends)).encode() for ends in ((1, 10), (11, 20), (21, 24))
    ]
    setting.log.commit()
    assert setting.answers == [
        Published(number, (("n", 1, 6 * number + 1),), 6, (), ()) for number in range(4)
    ]
    setting.check()


@pytest.mark.parametrize("fitting", [1, 2, 3, 5, 7, 23])
def test_documents_that_were_not_matched_in_time_wait_in_order(
    setting: Setting, fitting: int
) -> None:
    setting.matcher.fitting = fitting
    for number in range(8):
        setting.add(number, *numbers(3 * number + 1, 3 * number + 3 * (number % 2 == 0)))
    taken = 0
    while setting.publisher.is_ready:
        setting.input.ingest_waiting(setting.publisher, 1_000, 0.5)
        taken = min(taken + fitting, 12)
        assert sum(map(len, logged(setting))) == taken
    setting.log.commit()
    assert [d for documents, _ in setting.committed for d in documents] == [
        b"%d" % (6 * number + place) for number in range(4) for place in (1, 2, 3)
    ]
    assert [answer.accepted for answer in setting.answers if isinstance(answer, Published)] == [
        *[3, 0] * 4
    ]
    setting.check()


@pytest.mark.parametrize("most", [1, 2, 3, 5, 7, 100])
def test_a_batch_in_parts_gets_one_answer(most: int) -> None:
    setting = Setting()
    setting.most = most
    documents = ["refuse", "1", "2", "1", "3", "refuse", "2", "4", "refuse", "5", "5"]
    setting.publish(1, *documents)
    setting.log.commit()
    (answer,) = setting.answers
    assert isinstance(answer, Published)
    assert (answer.first, answer.accepted) == ((("n", 1, 1),), 5)
    assert answer.duplicates == (3, 6, 10)
    assert [(index, error[0]) for index, error in answer.refused] == [
        (index, "not-valid") for index in (0, 5, 8)
    ]
    assert [d for documents, _ in setting.committed for d in documents] == [
        b"1",
        b"2",
        b"3",
        b"4",
        b"5",
    ]
    setting.check()


def test_an_answer_waits_for_the_commit_of_the_last_part(setting: Setting) -> None:
    setting.add(1, *numbers(1, 4))
    setting.input.ingest_waiting(setting.publisher, 2)
    setting.log.commit()
    assert setting.answers == [] and len(setting.committed) == 1
    setting.input.ingest_waiting(setting.publisher, 2)
    assert setting.answers == []
    setting.log.commit()
    assert setting.answers == [Published(1, (("n", 1, 1),), 4, (), ())]


@pytest.mark.parametrize("most", [1, 100])
def test_batches_without_documents_are_answered_too(most: int) -> None:
    setting = Setting()
    setting.most = most
    setting.add(1)
    setting.add(2)
    setting.publish(3, "1")
    setting.log.commit()
    assert [type(answer) for answer in setting.answers] == [Published] * 3
    assert setting.publisher.waiting == deque()


def test_the_answer_has_new_marks_behind_events_of_other_publishers(setting: Setting) -> None:
    setting.add(1, "1", "2", "refuse", "1", "3", "4")
    setting.input.ingest_waiting(setting.publisher, 2)
    setting.log.append([(b"", 0, b"of another")], lambda _: None)
    setting.input.ingest_waiting(setting.publisher, 3)
    setting.input.ingest_waiting(setting.publisher, 1)
    setting.log.commit()
    (answer,) = setting.answers
    assert isinstance(answer, Published)
    assert (answer.first, answer.accepted) == ((("n", 1, 1),), 4)
    assert (answer.duplicates, answer.later) == ((3,), ((4, (1, 4)),))
    assert [index for index, _ in answer.refused] == [2]
    assert setting.input.outcomes.accepted == 4
    setting.check()


def test_after_a_failed_part_the_rest_of_the_batch_is_not_ingested(
    setting: Setting,
) -> None:
    documents = numbers(1, 8)
    setting.add(1, *documents)
    setting.add(2, "9")
    setting.input.ingest_waiting(setting.publisher, 2)
    setting.log.commit()
    setting.input.ingest_waiting(setting.publisher, 2)
    setting.input.ingest_waiting(setting.publisher, 2)
    setting.log.fail()
    assert setting.told == [("NotPublished", 1)]
    setting.log.resting = False
    setting.take_all(setting.publisher)
    assert setting.told == [("NotPublished", 1), ("NotPublished", 2)]
    assert setting.log.waiting == []
    outcomes = setting.input.outcomes
    assert (outcomes.accepted, outcomes.not_taken) == (2, 7)
    setting.check()
    setting.log.deduplication.record_run(("alice", 1), 2, 0)
    setting.publish(1, *documents)
    setting.publish(2, "9")
    setting.log.commit()
    assert setting.told[2:] == [("Published", 1), ("Published", 2)]
    (again, _) = setting.answers[2:]
    assert isinstance(again, Published)
    assert (again.accepted, again.duplicates) == (6, (0, 1))
    assert [d.decode() for documents, _ in setting.committed for d in documents] == numbers(1, 9)
    setting.check()


def test_a_batch_is_returned_if_the_log_is_unavailable_between_parts(setting: Setting) -> None:
    setting.add(1, *numbers(1, 4))
    setting.input.ingest_waiting(setting.publisher, 2)
    setting.log.commit()
    setting.log.resting = True
    setting.take_all(setting.publisher)
    assert setting.told == [("NotPublished", 1)]
    setting.log.resting = False
    setting.publish(1, *numbers(1, 4))
    setting.log.commit()
    assert setting.told[1:] == [("Published", 1)]
    assert setting.input.outcomes.duplicate == 2
    setting.check()


@pytest.mark.parametrize("stored", [True, False])
def test_a_returned_batch_is_answered_once_with_any_result_of_its_first_part(
    setting: Setting, stored: bool
) -> None:
    setting.add(1, *numbers(1, 2), "odd 3")
    setting.input.ingest_waiting(setting.publisher, 2)
    setting.input.ingest_waiting(setting.publisher, 2)
    setting.dtds.asked[0].errback(Overloaded("too many wait"))
    assert setting.told == [("NotPublished", 1)]
    if stored:
        setting.log.commit()
    else:
        setting.log.fail()
    assert setting.told == [("NotPublished", 1)]
    assert len(setting.committed) == stored
    setting.check()


def test_the_rest_is_not_ingested_after_the_session_has_ended(setting: Setting) -> None:
    setting.add(1, *numbers(1, 6))
    setting.add(2, "7")
    setting.input.ingest_waiting(setting.publisher, 2)
    setting.input.discard_waiting(setting.publisher)
    assert not setting.publisher.is_ready
    setting.log.commit()
    assert [documents for documents, _ in setting.committed] == [[b"1", b"2"]]
    assert setting.answers == []
    setting.check()


def test_parts_before_one_that_waits_for_its_type_are_not_ingested_again(
    setting: Setting,
) -> None:
    setting.most = 2
    setting.add(1, *numbers(1, 4), "5", "odd 6", "7")
    setting.add(2, "8")
    setting.take_all(setting.publisher)
    assert setting.matcher.calls == [2, 2, 2] and setting.publisher.is_paused
    setting.log.commit()
    assert setting.answers == []
    setting.matcher.known.add(ODD)
    setting.dtds.asked[0].callback(None)
    assert setting.matcher.calls == [2, 2, 2, 2, 2]
    setting.log.commit()
    assert setting.answers == [
        Published(1, (("n", 1, 1),), 7, (), ()),
        Published(2, (("n", 1, 8),), 1, (), ()),
    ]
    assert [d for documents, _ in setting.committed for d in documents] == [
        *(b"%d" % n for n in range(1, 6)),
        b"odd 6",
        b"7",
        b"8",
    ]
    setting.check()


def test_a_commit_that_fails_while_a_later_part_waits_for_its_type(setting: Setting) -> None:
    setting.most = 2
    setting.add(1, "1", "2", "odd 3")
    setting.add(2, "4")
    setting.take_all(setting.publisher)
    setting.log.fail()
    assert setting.told == [("NotPublished", 1)]
    setting.log.resting = False
    setting.matcher.known.add(ODD)
    setting.dtds.asked[0].callback(None)
    assert setting.told == [("NotPublished", 1), ("NotPublished", 2)]
    assert setting.log.waiting == []
    setting.check()


def test_a_missing_type_is_looked_up_once_for_all_parts(setting: Setting) -> None:
    setting.most = 1
    setting.publish(1, "odd 1", "2", "odd 3")
    setting.dtds.asked[0].errback(UnknownType("there is none"))
    setting.log.commit()
    (answer,) = setting.answers
    assert isinstance(answer, Published)
    assert [index for index, _ in answer.refused] == [0, 2]
    assert len(setting.dtds.asked) == 1
