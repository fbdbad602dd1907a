"""Pages of a log for a reader whose interest has a queue policy."""

from __future__ import annotations

from pathlib import Path

import pytest
from twisted.internet.task import Clock

from broker.cluster.page_queue import PageQueues
from broker.cluster.traffic.frame import MAX_HOPS
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.messages import PageRequest
from broker.queue_memory import QueueMemory
from broker.streams.dropped_count import QUEUE_FULL, DroppedCount
from broker.streams.queue_policy import DROP_OLDEST, FAIL, IQueuePolicy
from tests.cluster.test_log_page_server import FakeRemoteInterest, Matcher, pages_to, short_log
from tests.cluster.traffic.frames import node
from tests.log.test_event_log import HEADER_RECORD


@pytest.mark.parametrize("policy", [FAIL, DROP_OLDEST], ids=str)
def test_an_event_larger_than_the_queue_does_not_block_its_reader(
    tmp_path: Path, policy: IQueuePolicy
) -> None:
    log, writer, reader = short_log(tmp_path)
    log.append([(HEADER_RECORD, 0, b"<n/>")] * 600 + [(HEADER_RECORD, 0, b"<w/>")], lambda _: None)
    while writer.calls:
        writer.step()
    served: list[tuple[Range, list[int]]] = []
    clock, interest = Clock(), FakeRemoteInterest()
    interest.policy = policy
    pages = pages_to(
        served,
        log,
        matcher=Matcher(),
        remote_interest=interest,
        clock=clock,
        queues=PageQueues(1_000, 10, QueueMemory()),
    )
    after = (log.own_end[0], 0)
    request = PageRequest(node("home"), node("reader"), MAX_HOPS, log.origin, after, may_drop=True)
    pages.serve_page(request)
    while not served:
        if reader.calls:
            reader.step()
        clock.pump([0.0] * 5)
    ((page, places),) = served
    assert (page.after, page.upto) == (after, log.own_end)
    if policy is FAIL:
        assert (places, page.dropped, page.unavailable_upto) == ([601], QUEUE_FULL, None)
    else:
        assert (places, page.unavailable_upto) == ([], log.own_end)
        assert page.dropped == (DroppedCount(0, 1, False),)
