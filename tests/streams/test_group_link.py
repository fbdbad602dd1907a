"""A group of a transport: only datagrams with the tag of the network come through."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from twisted.internet.task import Clock

from broker.errors import ConfigurationError
from broker.streams.group_link import GroupLink
from broker.streams.link_sockets import LinkSockets
from broker.testing.datagram_network import DatagramNetwork
from broker.testing.memory_group import MemoryGroupChannel
from broker.transport.stacks import GroupAddress

GROUP = GroupAddress("239.77.0.1", 8771, "10.0.0.7")


class Segment:
    def __init__(self) -> None:
        self.clock = Clock()
        self.network = DatagramNetwork(self.clock, 0)
        self.received: dict[str, list[bytes]] = {}

    def join(self, name: str, key: bytes | None) -> GroupLink:
        found = self.received[name] = []

        def receive(datagrams: Sequence[bytes]) -> None:
            found.extend(datagrams)

        def open_group(address: GroupAddress) -> MemoryGroupChannel:
            return MemoryGroupChannel(self.network, address, name)

        return GroupLink(GROUP, key, open_group, receive)


def test_only_members_with_the_key_of_the_network_are_heard() -> None:
    segment = Segment()
    a, b = segment.join("a", b"key"), segment.join("b", b"key")
    other, open_one = segment.join("other", b"another key"), segment.join("open", None)
    a.send([b"one", b"two"])
    other.send([b"forged"])
    open_one.send([b"forged"])
    segment.clock.advance(1.0)
    segment.clock.advance(1.0)
    assert segment.received == {"a": [], "b": [b"one", b"two"], "other": [], "open": []}
    assert (a.dropped, b.dropped, other.dropped) == (2, 2, 3)
    b.close()
    a.send([b"three"])
    segment.clock.advance(1.0)
    segment.clock.advance(1.0)
    assert segment.received["b"] == [b"one", b"two"]


def test_a_node_without_ip_multicast_says_so() -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError(arguments)

    sockets = LinkSockets(refuse, refuse)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"239\.77\.0\.1: there is no IP multicast"):
        GroupLink(GROUP, None, sockets.open_group, refuse)
