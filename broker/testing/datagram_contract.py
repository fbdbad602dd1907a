"""Contract tests for every implementation of IDatagramChannel.

Mix the class into a test case as `SocketChannelContract`. The network between the two channels must
lose nothing during these tests.
"""

from __future__ import annotations

import unittest
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from zope.interface.verify import verifyObject

from broker.errors import Closed
from broker.testing.socket_contract import RecordingReceiver
from broker.transport.socket.contract import IDatagramChannel
from broker.transport.socket.datagram_channel import MAX_HELD

if TYPE_CHECKING:
    _Base = unittest.TestCase
else:
    _Base = object


class DatagramChannelContract(_Base):
    """Each test has two ends of its own."""

    def make_pair(self) -> Awaitable[tuple[IDatagramChannel, IDatagramChannel]]:
        """Return channels to each other without receivers, closed after the test."""
        raise NotImplementedError

    def until(self, condition: Callable[[], bool]) -> Awaitable[None]:
        """Wait until `condition` holds; fail if it never will."""
        raise NotImplementedError

    def changed(self) -> None:
        """Called after each recorded call, so that `until` can check again."""

    def attach_receiver(self, channel: IDatagramChannel) -> RecordingReceiver:
        return RecordingReceiver(channel, self.changed)

    async def make_ends(self) -> tuple[RecordingReceiver, RecordingReceiver]:
        here, there = await self.make_pair()
        return self.attach_receiver(here), self.attach_receiver(there)

    async def test_the_channel_implements_its_interface(self) -> None:
        for channel in await self.make_pair():
            assert verifyObject(IDatagramChannel, channel)
            assert channel.peer_description
            assert channel.max_frame == channel.max_packet > 200

    async def test_packets_arrive_whole_both_ways(self) -> None:
        here, there = await self.make_pair()
        sent = [b"%d" % number for number in range(50)] + [bytes(here.max_packet)]
        one, other = self.attach_receiver(here), self.attach_receiver(there)
        here.send(sent)
        there.send(sent)
        await self.until(lambda: len(one.packets) == len(other.packets) == len(sent))
        assert sorted(one.packets) == sorted(other.packets) == sorted(sent)
        assert 0 not in one.batches + other.batches

    async def test_packets_that_arrive_together_are_one_batch(self) -> None:
        here, there = await self.make_ends()
        here.channel.send([b"a", b"b", b"c"])
        await self.until(lambda: len(there.packets) == 3)
        assert there.batches == [3]

    async def test_an_empty_or_too_large_packet_raises_value_error_and_none_is_sent(self) -> None:
        here, there = await self.make_pair()
        receiver = self.attach_receiver(there)
        for wrong in (b"", bytes(here.max_packet + 1)):
            with self.assertRaises(ValueError):
                here.send([b"a", wrong])
        here.send([])
        here.send([b"b"])
        await self.until(lambda: bool(receiver.packets))
        assert receiver.packets == [b"b"]

    async def test_packets_above_the_reader_s_limit_are_dropped(self) -> None:
        here, there = await self.make_ends()
        there.channel.max_frame = 10
        here.channel.send([b"0123456789A"])
        here.channel.send([b"0123456789"])
        await self.until(lambda: bool(there.packets))
        assert there.packets == [b"0123456789"]
        assert there.losses == []

    async def test_packets_wait_for_a_receiver_and_a_reader_up_to_a_bound(self) -> None:
        here, there = await self.make_pair()
        here.send([b"first"])
        receiver = self.attach_receiver(there)
        await self.until(lambda: receiver.packets == [b"first"])
        there.pause()
        for _ in range(2):
            here.send([b"%d" % number for number in range(MAX_HELD)])
        # A packet to this end shows that the others have arrived.
        sender = self.attach_receiver(here)
        there.send([b"x"])
        await self.until(lambda: bool(sender.packets))
        assert receiver.packets == [b"first"]
        there.resume()
        await self.until(lambda: len(receiver.packets) > 1)
        assert len(receiver.packets) <= 1 + MAX_HELD
        here.send([b"last"])
        await self.until(lambda: receiver.packets[-1] == b"last")

    async def test_closing_reports_one_loss_here_and_none_there(self) -> None:
        here, there = await self.make_ends()
        here.channel.close()
        here.channel.close()
        assert here.losses == []
        there.channel.send([b"late"])
        await self.until(lambda: bool(here.losses))
        assert (here.losses, there.losses) == ([None], [])
        assert here.packets == []

    async def test_aborting_reports_the_error_here_and_nothing_there(self) -> None:
        """The error is not reported before the call has returned."""
        here, there = await self.make_ends()
        error = Closed("enough")
        here.channel.abort(error)
        here.channel.abort(Closed("again"))
        assert here.losses == []
        await self.until(lambda: bool(here.losses))
        assert (here.losses, there.losses) == ([error], [])

    async def test_a_lost_channel_ignores_all_calls(self) -> None:
        here, _ = await self.make_ends()
        here.channel.abort(Closed("enough"))
        await self.until(lambda: bool(here.losses))
        here.channel.send([b"a"])
        here.channel.pause()
        here.channel.resume()
        here.channel.close()
        here.channel.abort(Closed("again"))
        assert len(here.losses) == 1

    async def test_a_receiver_set_after_the_loss_gets_the_loss_once(self) -> None:
        here, there = await self.make_pair()
        here.abort(Closed("enough"))
        # A packet of the other end needs at least one turn.
        self.attach_receiver(there)
        late = self.attach_receiver(here)
        await self.until(lambda: bool(late.losses))
        assert len(late.losses) == 1
        assert self.attach_receiver(here).losses == []

    async def test_a_receiver_can_be_replaced(self) -> None:
        """The new receiver gets later packets only."""
        here, there = await self.make_ends()
        here.channel.send([b"a"])
        await self.until(lambda: bool(there.packets))
        heir = RecordingReceiver(there.channel, self.changed)
        here.channel.send([b"b"])
        await self.until(lambda: bool(heir.packets))
        assert (there.packets, heir.packets) == ([b"a"], [b"b"])
