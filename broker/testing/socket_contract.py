"""Contract tests for every implementation of ISocketChannel.

Mix the class into a test case whose tests may be coroutines (trial's `TestCase`, or the standard
library's `IsolatedAsyncioTestCase`). Implement `make_pair` and `until`, and `changed` if time is
real.
"""

from __future__ import annotations

import unittest
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from zope.interface import implementer
from zope.interface.verify import verifyObject

from broker.errors import BrokerError, Closed, FrameTooLarge, NotConnected
from broker.transport.socket.contract import ISocketChannel, ISocketReceiver

#: More than the operating system buffers for two loopback sockets.
MORE_THAN_SOCKET_BUFFERS = 40 * 1024 * 1024


@implementer(ISocketReceiver)
class RecordingReceiver:
    """A receiver that records its calls, and calls `changed` after each one."""

    def __init__(self, channel: ISocketChannel, changed: Callable[[], None] = lambda: None) -> None:
        self.channel = channel
        self.changed = changed
        self.packets: list[bytes] = []
        self.batches: list[int] = []
        self.losses: list[BrokerError | None] = []
        self.writable: list[bool] = []
        channel.receiver = self

    def packets_received(self, packets: Sequence[bytes]) -> None:
        self.packets += packets
        self.batches.append(len(packets))
        self.changed()

    def channel_lost(self, error: BrokerError | None) -> None:
        self.losses.append(error)
        self.changed()

    def writable_changed(self, writable: bool) -> None:
        self.writable.append(writable)
        self.changed()

    @property
    def received_bytes(self) -> int:
        return sum(map(len, self.packets))


if TYPE_CHECKING:
    _Base = unittest.TestCase
else:
    _Base = object


class SocketChannelContract(_Base):
    """Each test has a connection of its own."""

    #: Largest packet that the channels of `make_pair` accept.
    max_frame = 1024 * 1024

    def make_pair(self) -> Awaitable[tuple[ISocketChannel, ISocketChannel]]:
        """Return two connected channels without receivers, closed after the test."""
        raise NotImplementedError

    def until(self, condition: Callable[[], bool]) -> Awaitable[None]:
        """Wait until `condition` holds; fail if it never will."""
        raise NotImplementedError

    def changed(self) -> None:
        """Called after each recorded call, so that `until` can check again."""

    def attach_receiver(self, channel: ISocketChannel) -> RecordingReceiver:
        return RecordingReceiver(channel, self.changed)

    async def make_ends(self) -> tuple[RecordingReceiver, RecordingReceiver]:
        here, there = await self.make_pair()
        return self.attach_receiver(here), self.attach_receiver(there)

    async def test_the_channel_implements_its_interface(self) -> None:
        for channel in await self.make_pair():
            assert verifyObject(ISocketChannel, channel)
            assert channel.peer_description
            assert channel.max_frame == self.max_frame

    async def test_packets_arrive_whole_and_in_order_both_ways(self) -> None:
        here, there = await self.make_ends()
        sent = [b"%d" % number for number in range(500)] + [bytes(300_000), b"last"]
        here.channel.send(sent)
        for packet in sent:
            there.channel.send([packet])
        await self.until(lambda: len(there.packets) == len(here.packets) == len(sent))
        assert there.packets == sent
        assert here.packets == sent
        assert 0 not in here.batches + there.batches

    async def test_packets_that_arrive_together_are_one_batch(self) -> None:
        here, there = await self.make_ends()
        here.channel.send([b"a", b"b", b"c"])
        await self.until(lambda: len(there.packets) == 3)
        assert there.batches == [3]

    async def test_sending_nothing_sends_nothing(self) -> None:
        here, there = await self.make_ends()
        here.channel.send([])
        here.channel.send([b"a"])
        await self.until(lambda: bool(there.packets))
        assert there.packets == [b"a"]

    async def test_sending_an_empty_packet_raises_value_error(self) -> None:
        """The receiver could not distinguish it from no packet."""
        here, _ = await self.make_ends()
        with self.assertRaises(ValueError):
            here.channel.send([b"a", b""])

    async def test_closing_delivers_sent_packets_and_reports_one_loss_to_each_end(self) -> None:
        here, there = await self.make_ends()
        here.channel.send([bytes(500_000)] * 4)
        here.channel.close()
        here.channel.close()
        assert here.losses == []
        await self.until(lambda: bool(here.losses and there.losses))
        assert there.received_bytes == 2_000_000
        assert here.losses == there.losses == [None]

    async def test_both_may_close_at_once(self) -> None:
        here, there = await self.make_ends()
        here.channel.close()
        there.channel.close()
        await self.until(lambda: bool(here.losses and there.losses))
        assert len(here.losses) == len(there.losses) == 1

    async def test_nothing_is_delivered_after_closing(self) -> None:
        here, there = await self.make_ends()
        there.channel.send([b"late"])
        here.channel.close()
        await self.until(lambda: bool(here.losses and there.losses))
        assert here.packets == []

    async def test_aborting_reports_the_error_here_and_a_loss_there(self) -> None:
        """The error is not reported before the call has returned."""
        here, there = await self.make_ends()
        error = Closed("enough")
        here.channel.abort(error)
        here.channel.abort(Closed("again"))
        assert here.losses == []
        await self.until(lambda: bool(here.losses and there.losses))
        assert here.losses == [error]
        assert len(there.losses) == 1

    async def test_aborting_cuts_short_a_close_that_can_not_flush(self) -> None:
        here, there = await self.make_ends()
        there.channel.pause()
        here.channel.send([bytes(500_000)] * (MORE_THAN_SOCKET_BUFFERS // 500_000))
        here.channel.close()
        error = Closed("enough")
        here.channel.abort(error)
        await self.until(lambda: bool(here.losses))
        assert here.losses == [error]

    async def test_a_lost_channel_ignores_all_calls(self) -> None:
        here, there = await self.make_ends()
        there.channel.abort(Closed("enough"))
        await self.until(lambda: bool(here.losses and there.losses))
        here.channel.send([b"a"])
        here.channel.pause()
        here.channel.resume()
        here.channel.close()
        here.channel.abort(Closed("again"))
        assert isinstance(here.losses[0], NotConnected) or here.losses == [None]
        assert len(here.losses) == 1

    async def test_a_receiver_set_after_the_loss_gets_the_loss_once(self) -> None:
        here, there = await self.make_pair()
        noting = self.attach_receiver(there)
        here.abort(Closed("enough"))
        await self.until(lambda: bool(noting.losses))
        late = self.attach_receiver(here)
        assert len(late.losses) == 1
        assert self.attach_receiver(here).losses == []

    async def test_nothing_is_lost_while_there_is_no_receiver(self) -> None:
        here, there = await self.make_pair()
        self.attach_receiver(here)
        here.send([b"a", b"b"])
        noting = self.attach_receiver(there)
        await self.until(lambda: len(noting.packets) == 2)

    async def test_a_receiver_can_be_replaced(self) -> None:
        """The new receiver gets later packets only."""
        here, there = await self.make_ends()
        here.channel.send([b"a"])
        await self.until(lambda: bool(there.packets))
        heir = self.attach_receiver(there.channel)
        here.channel.send([b"b"])
        await self.until(lambda: bool(heir.packets))
        assert (there.packets, heir.packets) == ([b"a"], [b"b"])

    async def test_a_reader_that_pauses_blocks_the_writer_until_it_resumes(self) -> None:
        """Memory in between is bounded, and nothing is lost."""
        here, there = await self.make_ends()
        there.channel.pause()
        for _ in range(MORE_THAN_SOCKET_BUFFERS // 500_000):
            here.channel.send([bytes(500_000)])
            if here.writable:
                break
        assert here.writable == [False]
        before = there.received_bytes
        there.channel.resume()
        await self.until(lambda: here.writable == [False, True])
        here.channel.send([b"end"])
        await self.until(lambda: there.packets[-1:] == [b"end"])
        assert there.received_bytes > before

    async def test_a_packet_that_is_too_large_is_refused_by_its_reader(self) -> None:
        """The limit can change while connected."""
        here, there = await self.make_ends()
        there.channel.max_frame = 10
        here.channel.send([b"0123456789"])
        await self.until(lambda: bool(there.packets))
        here.channel.send([b"0123456789A"])
        await self.until(lambda: bool(here.losses and there.losses))
        assert isinstance(there.losses[0], FrameTooLarge)
        assert there.packets == [b"0123456789"]
