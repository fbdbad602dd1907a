from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed

from broker.dtd.reference import DtdReference
from broker.errors import (
    Overloaded,
    UnknownType,
)
from broker.wire.event_batch import Batch
from broker.wire.messages import Published
from tests.ingest.input_fakes import ODD, Setting


@pytest.fixture
def setting() -> Setting:
    return Setting()


def test_a_batch_is_answered_after_its_commit_and_delivered_with_it(setting: Setting) -> None:
    setting.publish(1, "1", "a 2")
    assert setting.answers == [] and setting.committed == []
    setting.log.commit()
    assert setting.answers == [Published(1, (("n", 1, 1),), 2, (), ())]
    assert setting.committed == [([b"1", b"a 2"], [(1,), (2,)])]
    setting.check()


def test_a_refused_event_gets_no_place_and_goes_to_the_quarantine(setting: Setting) -> None:
    setting.publish(1, "1", "refuse", "2", "1", "refuse")
    setting.log.commit()
    (answer,) = setting.answers
    assert isinstance(answer, Published)
    assert (answer.accepted, answer.duplicates) == (2, (3,))
    assert [(index, error[0]) for index, error in answer.refused] == [
        (1, "not-valid"),
        (4, "not-valid"),
    ]
    assert setting.quarantine.kept == [(b"refuse", "not-valid")] * 2
    setting.check()


def test_a_batch_of_duplicates_waits_for_the_commit_of_the_originals(setting: Setting) -> None:
    setting.publish(1, "1")
    setting.publish(2, "1")
    assert setting.answers == []
    setting.log.commit()
    assert setting.told == [("Published", 1), ("Published", 2)]
    assert setting.input.outcomes.duplicate == 1
    assert len(setting.committed) == 1


def test_after_a_failed_commit_the_failed_batch_must_come_first(setting: Setting) -> None:
    for number in (1, 2, 3):
        setting.publish(number, str(number))
    setting.log.fail()
    assert setting.told == [("NotPublished", n) for n in (1, 2, 3)]
    setting.publish(4, "4")
    setting.log.resting = False
    setting.publish(5, "5")
    assert setting.told[3:] == [("NotPublished", 4), ("NotPublished", 5)]
    for number in (1, 2, 3, 4, 5):
        setting.publish(number, str(number))
    setting.log.commit()
    assert setting.told[5:] == [("Published", n) for n in (1, 2, 3, 4, 5)]
    assert [d for documents, _ in setting.committed for d in documents] == [
        b"1",
        b"2",
        b"3",
        b"4",
        b"5",
    ]
    setting.check()


def test_a_failure_stops_only_its_publishers(setting: Setting) -> None:
    other, answers = setting.join()
    setting.publish(1, "1")
    setting.log.fail()
    setting.log.resting = False
    setting.publish(2, "2")
    other.add_batch(Batch(7, [b"9"]))
    setting.take_all(other)
    setting.log.commit()
    assert setting.told == [("NotPublished", 1), ("NotPublished", 2)]
    assert [type(answer) for answer in answers] == [Published]


def test_batches_behind_one_that_waits_for_its_type_wait_too(setting: Setting) -> None:
    setting.publish(1, "1", "odd 2")
    setting.publish(2, "3")
    assert setting.log.waiting == [] and len(setting.dtds.asked) == 1
    setting.matcher.known.add(ODD)
    setting.dtds.asked[0].callback(None)
    setting.log.commit()
    assert setting.told == [("Published", 1), ("Published", 2)]
    assert [d for documents, _ in setting.committed for d in documents] == [b"1", b"odd 2", b"3"]
    setting.check()


def test_batches_before_a_waiting_one_are_answered_before_it(setting: Setting) -> None:
    setting.publish(1, "1")
    setting.publish(2, "odd 2")
    setting.log.commit()
    assert setting.told == [("Published", 1)]
    setting.dtds.asked[0].errback(UnknownType("there is none"))
    setting.log.commit()
    assert setting.told == [("Published", 1), ("Published", 2)]
    (_, answer) = setting.answers
    assert isinstance(answer, Published) and answer.refused[0][1][0] == "unknown-type"
    setting.publish(3, "odd 3")
    assert len(setting.dtds.asked) == 2


def test_a_failing_source_is_an_unknown_type_for_the_publisher(setting: Setting) -> None:
    setting.publish(1, "odd 1")
    setting.dtds.asked[0].errback(RuntimeError("a bug"))
    setting.log.commit()
    (answer,) = setting.answers
    assert isinstance(answer, Published) and answer.refused[0][1][0] == "unknown-type"


def test_an_undescribed_type_may_be_accepted() -> None:
    setting = Setting(accept_undescribed=True)
    setting.publish(1, "odd 1")
    setting.dtds.asked[0].errback(UnknownType("there is none"))
    setting.log.commit()
    assert setting.input.outcomes.accepted == 1


@pytest.mark.parametrize("accept", [True, False])
def test_a_batch_is_returned_if_too_many_types_are_looked_up(accept: bool) -> None:
    setting = Setting(accept_undescribed=accept)
    setting.publish(1, "odd 1")
    setting.publish(2, "2")
    setting.dtds.asked[0].errback(Overloaded("too many wait"))
    assert setting.told == [("NotPublished", 1), ("NotPublished", 2)]
    setting.matcher.known.add(ODD)
    setting.publish(1, "odd 1")
    setting.publish(2, "2")
    setting.log.commit()
    assert setting.told[2:] == [("Published", 1), ("Published", 2)]
    assert setting.input.outcomes.refused == {}
    setting.check()


def test_a_batch_is_returned_if_the_disk_fills_while_it_waits_for_its_type(
    setting: Setting,
) -> None:
    setting.publish(1, "odd 1")
    setting.publish(2, "2")
    setting.log.resting = True
    setting.matcher.known.add(ODD)
    setting.dtds.asked[0].callback(None)
    assert setting.told == [("NotPublished", 1), ("NotPublished", 2)]
    setting.check()


def test_waiting_batches_of_an_ended_session_are_not_ingested(setting: Setting) -> None:
    setting.publish(1, "odd 1")
    setting.publish(2, "2")
    setting.input.discard_waiting(setting.publisher)
    setting.matcher.known.add(ODD)
    setting.dtds.asked[0].callback(None)
    assert setting.log.waiting == [] and setting.answers == []
    setting.check()


def test_immediate_look_ups_do_not_reorder_batches(setting: Setting) -> None:
    def lookup(reference: DtdReference, hint: Any) -> Deferred[Any]:
        setting.matcher.known.add(ODD)
        return succeed(None)

    setting.dtds.lookup = lookup  # type: ignore[method-assign]
    for number in (1, 2, 3):
        setting.add(number, f"odd {number}")
    setting.take_all(setting.publisher)
    setting.log.commit()
    assert setting.told == [("Published", n) for n in (1, 2, 3)]
