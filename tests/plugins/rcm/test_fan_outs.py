"""Fan-outs of the link stack `rcm`: their options, and links of sites that have them."""

from __future__ import annotations

from typing import Any

import pytest

from broker.errors import ConfigurationError
from broker.testing.datagram_network import DatagramNetwork
from broker.testing.memory_group import MemoryGroupChannel
from broker.transport.stacks import GroupAddress, StackSettings, build_stack
from broker.transport.view import LinkState
from plugins.rcm.settings import RcmLinkSettings
from plugins.rcm.stack import rcm_links
from tests.plugins.rcm.site import Site, end_silence, linked_sites, silence
from tests.streams.link_ends import Wire

GROUP = {"group": "239.1.2.3:9000", "group_interface": "eth0"}


@pytest.mark.parametrize(
    "options",
    [
        {"fan_out": "group"},
        {"fan_out": "group", "group": "239.1.2.3:9000"},
        {"fan_out": "group", "group": "10.1.2.3:9000", "group_interface": "eth0"},
        {"fan_out": "tree", "p2p": "tcp"},
        {"fan_out": "group", "p2p": "tcp-suspected", **GROUP},
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="fan_out = "):
        RcmLinkSettings(**options)


def test_only_the_group_has_an_address() -> None:
    assert rcm_links.group_of(RcmLinkSettings(**GROUP)) is None  # type: ignore[arg-type]
    options = RcmLinkSettings(fan_out="group", **GROUP)  # type: ignore[arg-type]
    assert rcm_links.group_of(options) == GroupAddress("239.1.2.3", 9000, "eth0")


@pytest.mark.parametrize("fan_out", ["copies", "tree", "group"])
def test_each_fan_out_provides_the_same(fan_out: str) -> None:
    options = RcmLinkSettings(fan_out=fan_out, **GROUP)  # type: ignore[arg-type]
    found = build_stack(rcm_links, StackSettings(incarnation=1, options=options))
    usual = build_stack(rcm_links, StackSettings(incarnation=1))
    assert found.provides == usual.provides


def test_sites_with_different_fan_outs_refuse_each_other() -> None:
    wire = Wire()
    a = Site(wire, "a", options=RcmLinkSettings(fan_out="tree"))
    b = Site(wire, "b")
    a.add(b)
    b.add(a)
    wire.run(10.0)
    assert a.states == b.states == {}
    refused: Any = a.links.snapshot()["refused"]
    assert list(refused) == ["stack-mismatch"]


def test_sites_pass_messages_on_and_count_them() -> None:
    names = "abcdef"
    wire, sites = linked_sites(*names, options=RcmLinkSettings(fan_out="tree"))
    for number in range(20):
        assert set(sites[0].send(b"%d" % number + bytes(500), *sites[1:])) == {"sent"}
        wire.run(0.01)
    wire.run(0.1)
    for site in sites[1:]:
        assert [message[:1] for _, message in site.received][:3] == [b"0", b"1", b"2"]
        assert len(site.received) == 20
    assert sites[0].links.snapshot()["references"] == 60
    assert sites[0].links.snapshot()["repairs"] == 0


def test_a_site_that_is_silent_for_one_other_gets_its_messages_after_the_repair() -> None:
    wire, sites = linked_sites(*"abcdef", options=RcmLinkSettings(fan_out="tree"))
    a, *_, f = sites
    silence(wire, a, f)
    for number in range(100):
        a.send(b"%02d" % number + bytes(500), *sites[1:])
        wire.run(0.1)
    assert a.state_of(f) is LinkState.SUSPECTED
    assert f.received == []
    end_silence(wire, a, f)
    wire.run(5.0)
    assert [message[:2] for _, message in f.received] == [b"%02d" % each for each in range(100)]


def test_the_links_of_an_instance_join_its_group_and_leave_it() -> None:
    wire = Wire()
    datagrams = DatagramNetwork(wire.clock, 0)
    opened: list[MemoryGroupChannel] = []
    options = RcmLinkSettings(fan_out="group", **GROUP)  # type: ignore[arg-type]

    def open_group(group: GroupAddress) -> MemoryGroupChannel:
        opened.append(MemoryGroupChannel(datagrams, group, (group, len(opened))))
        return opened[-1]

    wire.open_group = open_group
    sites = [Site(wire, name, options=options) for name in "abc"]
    for site in sites:
        site.add(*(other for other in sites if other is not site))
    wire.run(1.0)
    a, b, c = sites
    assert a.send(bytes(500), b, c) == ["sent", "sent"]
    wire.run(0.1)
    assert b.received == c.received == [("a", bytes(500))]
    assert opened[0].sent_bytes > 500
    assert a.links.snapshot()["rejected_datagrams"] == 0
    a.links.close()
    datagrams.send_datagram(b"x", "stranger", opened[0]._group)
    wire.run(0.1)
    assert a.links.snapshot()["rejected_datagrams"] == 0
    assert b.links.snapshot()["rejected_datagrams"] == 1
