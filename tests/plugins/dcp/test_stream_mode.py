"""A stream of bytes from several parents: AN counts them (DCP D33, D100)."""

from __future__ import annotations

from collections.abc import Hashable
from random import Random

import pytest

from plugins.dcp.event_range import StreamRange
from plugins.dcp.parent_path import ParentPath
from plugins.dcp.receiver import Nack, ReceiverSettings, SequenceReceiver
from plugins.dcp.sender import Sent, SequenceSender, Unavailable

PARENTS = ("a", "b", "c")
STEP = 0.005


def no_range(previous: int, upto: int) -> StreamRange:
    raise AssertionError("a stream has no ranges without bytes")


class Source:
    """A parent that cuts the stream in its own way, and loses some of what it sends."""

    def __init__(self, data: bytes, random: Random) -> None:
        self.sender = SequenceSender[StreamRange](0, no_range)
        self._data = data
        self._random = random
        self._loss = random.choice([0.0, 0.1, 0.3])
        self.on_their_way: list[tuple[StreamRange, bool]] = []

    def send(self, now: float) -> None:
        end = self.sender.end
        upto = min(len(self._data), end + self._random.randint(0, 90))
        if upto > end:
            self.sender.append(StreamRange(end, upto, self._data[end:upto]))
        while self.sender.is_waiting:
            self._carry(self.sender.next_to_send(self._random.randint(1, 60), now), False)

    def answer(self, nack: Nack, now: float) -> None:
        for each in self.sender.answer(nack, now, 0.01):
            self._carry(each, True)

    def _carry(self, item: Sent[StreamRange] | Unavailable, is_repeated: bool) -> None:
        assert isinstance(item, Sent)
        if self._random.random() >= self._loss:
            place = self._random.randint(0, len(self.on_their_way))
            self.on_their_way.insert(place, (item.range, is_repeated))


@pytest.mark.parametrize("seed", range(20))
def test_each_byte_comes_once_and_in_order(seed: int) -> None:
    random = Random(seed)
    data = random.randbytes(3_000)
    sources = {name: Source(data, random) for name in PARENTS}
    paths: dict[Hashable, ParentPath] = {name: ParentPath(name) for name in PARENTS}
    receiver = SequenceReceiver[StreamRange](paths, ReceiverSettings())
    received = b""
    now = 0.0
    receiver.begin(0, now)
    for name in PARENTS:
        # The control message that comes before the first range.
        receiver.set_parent(name, 0, 0, now)
    while len(received) < len(data):
        now += STEP
        assert now < 60.0, "bytes are missing"
        for name, source in sources.items():
            source.send(now)
            taken = random.randint(0, len(source.on_their_way))
            ranges, source.on_their_way = source.on_their_way[:taken], source.on_their_way[taken:]
            for range_, is_repeated in ranges:
                for each in receiver.receive(name, range_, now, is_repeated=is_repeated):
                    assert each.previous == len(received)
                    received += each.data
            source.sender.acknowledge(receiver.current or 0)
        due = receiver.next_timeout()
        if due is not None and now >= due:
            delivered, nack = receiver.handle_timeout(now)
            assert not delivered
            if nack is not None:
                for source in sources.values():
                    source.answer(nack, now)
        for name, source in sources.items():
            for each in receiver.receive_end(name, source.sender.sent_upto, now):
                assert each.previous == len(received)
                received += each.data
    assert received == data
