"""Merging pages of several logs."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import attrs
import pytest
from twisted.internet.defer import Deferred

from broker.event.place import Mark
from broker.recovery.page_merge import EventPages, PageMerge
from tests.delivery.test_recovered_feeds import far


async def pages_of(*pages: Sequence[Mark]) -> EventPages:
    for page in pages:
        yield [attrs.evolve(far(offset), epoch=epoch) for epoch, offset in page]


@pytest.mark.parametrize("after", [(1, 0), (1, 4)])
def test_each_event_comes_once_in_the_order_of_places(after: Mark) -> None:
    """A restored origin uses offsets again, in a later epoch."""
    logs = [
        pages_of([(1, 4), (1, 5)], [], [(1, 6), (2, 5)]),
        pages_of([(1, 5), (1, 7)], [(2, 5), (2, 6)]),
        pages_of(),
    ]
    found: list[Mark] = []

    async def read() -> None:
        merged = PageMerge(logs)
        at = after
        while event := await merged.next_event(at):
            at = event.mark
            found.append(at)
        await merged.close()

    done = Deferred.fromCoroutine(read())
    assert done.called and done.result is None
    every = [(1, 4), (1, 5), (1, 6), (1, 7), (2, 5), (2, 6)]
    assert found == [mark for mark in every if mark > after]


def test_a_dropped_coroutine_closes_no_reader_that_it_awaits() -> None:
    """So ends a coroutine of a node that is gone while it awaits a page."""

    async def wait_for_page() -> EventPages:
        await Deferred()
        yield []

    async def read() -> None:
        merged = PageMerge([wait_for_page()])
        try:
            await merged.next_event((1, 0))
        finally:
            await merged.close()

    reading = read()
    reading.send(None)
    reading.close()
    assert inspect.getcoroutinestate(reading) == inspect.CORO_CLOSED
