from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator

import pytest

from broker.cli.publishing.preparation import Preparation, PublishOptions
from broker.cli.publishing.publication import Publication, RawDocument, SourceLocation
from broker.cli.publishing.reader_thread import ReaderThread
from tests.matching.resident_memory import measure_resident


def numbers(count: int) -> Generator[int, None, None]:
    yield from range(count)


async def everything(hand_over: ReaderThread[int]) -> list[int]:
    taken: list[int] = []
    while portion := await hand_over.next_items():
        taken += portion
    return taken


def test_items_come_in_order() -> None:
    async def take() -> list[int]:
        return await everything(ReaderThread(numbers(5000), most=7))

    assert asyncio.run(take()) == list(range(5000))


def test_the_thread_blocks_while_items_wait() -> None:
    ahead: list[int] = []
    full = threading.Event()

    def watched() -> Generator[int, None, None]:
        for number in range(100):
            ahead.append(number)
            if number == 10:
                full.set()
            yield number

    async def take() -> list[int]:
        hand_over = ReaderThread(watched(), most=10)
        await asyncio.to_thread(full.wait, 10)
        # Ten wait for the loop, one for a free slot.
        assert len(ahead) == 11
        return await everything(hand_over)

    assert asyncio.run(take()) == list(range(100))


def test_the_thread_blocks_while_many_bytes_wait() -> None:
    ahead: list[bytes] = []
    full = threading.Event()

    def watched() -> Generator[bytes, None, None]:
        for size in (500, 400, 200, 2000, 1):
            ahead.append(b"x" * size)
            if size == 200:
                full.set()
            yield ahead[-1]

    async def take() -> list[bytes]:
        reading = ReaderThread(watched(), size_of=len, most_bytes=1000)
        await asyncio.to_thread(full.wait, 10)
        # An item that is larger than the bound waits alone.
        assert len(ahead) == 3
        taken: list[bytes] = []
        while portion := await reading.next_items():
            assert sum(map(len, portion)) <= 1000 or len(portion) == 1
            taken += portion
        return taken

    assert asyncio.run(take()) == ahead


def test_names_of_documents_are_freed_at_the_end_of_their_portion() -> None:
    def documents() -> Generator[RawDocument, None, None]:
        for turn in range(60):
            names = b"".join(b"<n%d_%d a%d_%d=''/>" % (turn, n, turn, n) for n in range(5000))
            made = Preparation(PublishOptions(type=("a", "1"))).prepare_xml(
                RawDocument(SourceLocation("f", 1), b"<a>" + names + b"</a>")
            )
            assert isinstance(made, Publication)
            yield RawDocument(SourceLocation("f", 1), b"")

    async def take() -> int:
        reading = ReaderThread(documents(), most=1, is_portion_end=lambda _: True)
        for _ in range(10):
            await reading.next_items()
        before = measure_resident()
        while await reading.next_items():
            pass
        return measure_resident() - before

    # 500,000 names are 21 MB. The document that is read meanwhile needs some MB.
    assert asyncio.run(take()) < 10 << 20


def test_an_error_comes_after_the_last_item() -> None:
    def broken() -> Generator[int, None, None]:
        yield 1
        raise OSError("the disk is gone")

    async def take() -> None:
        hand_over = ReaderThread(broken())
        assert await hand_over.next_items() == [1]
        with pytest.raises(OSError, match="the disk is gone"):
            await hand_over.next_items()

    asyncio.run(take())


def test_a_cancelled_thread_closes_what_it_reads() -> None:
    closed = threading.Event()

    def endless() -> Generator[int, None, None]:
        try:
            while True:
                yield 1
        finally:
            closed.set()

    async def take() -> None:
        hand_over = ReaderThread(endless(), most=3)
        assert await hand_over.next_items()
        hand_over.cancel()
        assert await asyncio.to_thread(closed.wait, 10)

    asyncio.run(take())
