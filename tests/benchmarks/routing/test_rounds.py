from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.routing.engine import Matched
from benchmarks.routing.rounds import BARE, Task, measure, split_rounds


def test_slices_are_all_of_one_length_and_no_document_comes_twice() -> None:
    documents = [b"%d" % number for number in range(25)]
    slices = split_rounds(documents, 3)
    assert [len(each) for each in slices] == [13, 4, 4, 4]
    assert [document for each in slices for document in each] == documents


def test_too_few_documents_end_the_run() -> None:
    with pytest.raises(BenchmarkFailed, match="3 documents are too few for 2 rounds"):
        split_rounds([b"1", b"2", b"3"], 2)


def test_the_first_slice_only_warms_up_and_every_task_gets_every_slice_or_its_part() -> None:
    seen: list[int] = []

    def task(documents: Sequence[bytes]) -> Matched:
        seen.append(len(documents))
        return Matched(2 * len(documents), 1, 0)

    slices = split_rounds([b"<a/>"] * 40, 3)
    bare, whole, part = measure(
        "x", [Task("whole", task, 5), Task("part", task, 5, most=3)], slices, lambda text: None
    )
    assert seen == [22, 3, *[6, 3] * 3]
    assert bare.label == BARE.label
    assert bare.ratios == [1.0] * 3
    assert (whole.events, whole.matches, whole.evaluations) == (18, 36, 3)
    assert (part.events, part.matches) == (9, 18)
    assert whole.ratio == sorted(whole.ratios)[1]
    assert whole.mean_ratio == pytest.approx(sum(whole.ratios) / 3)
    assert whole.as_json()["median_micros"] == whole.median
