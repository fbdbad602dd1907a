"""Multicast groups over real sockets.

IPv6 is in `test_lossy_links`: the loopback interface has no route for its groups.
"""

from __future__ import annotations

import socket
from typing import Any, ClassVar, cast

from twisted.internet import reactor as the_reactor
from twisted.internet.error import CannotListenError
from twisted.trial.unittest import SkipTest

from broker.errors import Closed, ConfigurationError
from broker.transport.arq.multicast_port import MulticastPort
from examples.free_ports import free_port
from tests.capability import skipped
from tests.system.recording_member import RecordingMember
from tests.system.waiting_test_case import WaitingTestCase

reactor = cast(Any, the_reactor)


class MulticastTests(WaitingTestCase):
    group = "239.255.77.1"
    interface: ClassVar[str] = "127.0.0.1"

    def setUp(self) -> None:
        super().setUp()
        self.port = free_port(socket.SOCK_DGRAM)
        self.present: list[MulticastPort] = []

    def member(self, name: str, **settings: Any) -> tuple[MulticastPort, RecordingMember]:
        recorder = RecordingMember(self.changed)
        where = (self.group, self.port, self.interface)
        port = MulticastPort(reactor, *where, name, recorder, loop=True, **settings)
        try:
            port.start()
        except CannotListenError as error:
            raise SkipTest(skipped("loopback-multicast", str(error))) from None
        self.addCleanup(port.stop)
        return port, recorder

    async def test_each_member_receives_all_others_in_order(self) -> None:
        ports, recorder = zip(*(self.member(name) for name in "abc"), strict=True)
        await self.until(lambda: all(len(each.present) == 2 for each in recorder))
        sent = [b"%d" % number + bytes(number) for number in range(1000)]
        for port in ports:
            port.send([*sent, bytes(100_000)])
        others = {"a": "bc", "b": "ac", "c": "ab"}

        def done() -> bool:
            return all(
                len(each.received[name]) == 1001
                for each, own in zip(recorder, "abc", strict=True)
                for name in others[own]
            )

        await self.until(done)
        for each in recorder:
            assert all(packets == [*sent, bytes(100_000)] for packets in each.received.values())
            assert not each.gaps
            assert len(each.received) == 2

    async def test_leaving_is_noticed_at_once_and_a_returning_member_is_new(self) -> None:
        first, _ = self.member("a")
        second, recorder = self.member("b")
        await self.until(lambda: recorder.present == {"a"})
        first.send([b"one"])
        await self.until(lambda: recorder.received["a"] == [b"one"])
        first.stop()
        await self.until(lambda: not recorder.present)
        again, _ = self.member("a")
        await self.until(lambda: recorder.present == {"a"})
        again.send([b"two"])
        await self.until(lambda: recorder.received["a"] == [b"one", b"two"])

    async def test_members_with_another_secret_are_ignored(self) -> None:
        _, stranger_recorder = self.member("stranger", secret=b"another")
        one, one_recorder = self.member("one", secret=b"the secret")
        _, two_recorder = self.member("two", secret=b"the secret")
        await self.until(lambda: "one" in two_recorder.present and "two" in one_recorder.present)
        one.send([b"secretly"])
        await self.until(lambda: bool(two_recorder.received["one"]))
        assert one_recorder.present == {"two"}
        assert two_recorder.present == {"one"}
        assert stranger_recorder.present == set()
        assert one.member.core.counts.forged > 0

    def test_stopped_port_and_empty_name_are_refused(self) -> None:
        where = (self.group, self.port, self.interface)
        with self.assertRaises(ConfigurationError):
            MulticastPort(reactor, *where, "", RecordingMember())
        with self.assertRaises(Closed):
            MulticastPort(reactor, *where, "a", RecordingMember()).send([b"x"])

    def test_missing_interface_raises_an_error(self) -> None:
        port = MulticastPort(reactor, self.group, self.port, "no-such-0", "a", RecordingMember())
        with self.assertRaises(CannotListenError):
            port.start()


class MulticastByNameTests(MulticastTests):
    interface = "lo"
