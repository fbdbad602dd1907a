"""Addresses of sites with host names, in virtual time."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import attrs
import pytest
from twisted.internet.task import Clock

from broker.testing.memory_connections import link_place
from plugins.rcm.options import RcmOptions
from plugins.rcm.site_links import RESOLVE_SECONDS, RETRY_SECONDS, SiteLinks
from tests.plugins.rcm.clients.simulated_group import PORT, SimulatedGroup


class NamedGroup(SimulatedGroup):
    """The addresses of its sites are `a.example`, ..., and resolve as `network.hosts` says."""

    def options_of(self, name: str) -> RcmOptions:
        for each, host in self.hosts.items():
            self.network.hosts.setdefault(f"{each}.example", host)
        sites = {each: f"tcp:host={each}.example:port={PORT}" for each in self.hosts}
        return attrs.evolve(self.options, sites=sites, listen=f"{self.hosts[name]}:{PORT}")

    def status(self, name: str, other: str) -> dict[str, object]:
        peers = self.processes[name].site.snapshot()["peers"]
        assert isinstance(peers, list)
        found: dict[str, object] = next(each for each in peers if each["site"] == other)
        return found

    def check_connected(self) -> None:
        for name in self.processes:
            for other in self.processes:
                assert name == other or self.status(name, other)["status"] == "connected"
        self.processes["a"].send("anna", b"to all")
        self.advance(1.0)
        self.check(has_all=True)


def test_a_site_whose_name_does_not_resolve_is_tried_again(tmp_path: Path) -> None:
    group = NamedGroup(tmp_path)
    group.network.hosts["c.example"] = ""
    for name in group.processes:
        group.restart(name, 0.1)
    group.advance(10.0)
    assert group.status("a", "b")["status"] == "connected"
    for name in "ab":
        found = group.status(name, "c")
        assert found["status"] == "disconnected"
        assert found["error"] == "tcp:host=c.example:port=9000: c.example does not resolve"
    # Nobody waits for it.
    message = group.processes["a"].send("anna", b"without c", "a", "b")
    group.advance(1.0)
    assert message.payload in [each.message.payload for _, _, each in group.got]
    group.network.hosts["c.example"] = group.hosts["c"]
    group.advance(RETRY_SECONDS + 1.0)
    assert "error" not in group.status("a", "c")
    group.check_connected()


def test_a_site_whose_name_gets_another_address_is_dialled_there(tmp_path: Path) -> None:
    group = NamedGroup(tmp_path)
    group.advance(2.0)
    group.check_connected()
    group.hosts["c"] = group.network.hosts["c.example"] = "127.0.0.9"
    for other in "ab":
        # The others have to dial.
        place = link_place((group.hosts[other], PORT))
        group.network.refuse(group.network.path(place, link_place(("127.0.0.9", PORT))))
    group.restart("c", 0.1)
    group.advance(RESOLVE_SECONDS + 5.0)
    group.check_connected()


def test_a_node_that_is_no_site_is_forgotten_unless_it_answers_at_the_address_of_one() -> None:
    clock, links = Clock(), Mock()
    links.add_peer.return_value = "address of b"
    links.node_of.return_value = "x"
    own = SiteLinks(Mock(clock=clock), {"b": "tcp:host=10.0.0.2:port=1"}, lambda status: None)
    own.open(links)
    own.connect("b")
    for peer in ("address of b", "another one"):
        own.forget_soon(peer)
    clock.advance(0.0)
    links.remove_peer.assert_called_once_with("another one")


@pytest.mark.parametrize(
    ("host", "listens"),
    [("10.0.0.1", "10.0.0.1:1"), ("localhost", "127.0.0.1:1"), ("a.example", "0.0.0.0:1")],
)
def test_a_site_with_a_host_name_listens_at_all_addresses(host: str, listens: str) -> None:
    options = RcmOptions(sites={"a": f"tcp:host={host}:port=1"})
    assert options.listening_address("a") == listens
    assert attrs.evolve(options, listen="10.0.0.2:3").listening_address("a") == "10.0.0.2:3"
