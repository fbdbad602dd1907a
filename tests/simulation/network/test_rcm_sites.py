"""Sites that join and leave a running group, in virtual time (R6)."""

from __future__ import annotations

from unittest.mock import patch

import msgspec
import pytest

from broker.client.received import Receipt
from broker.errors import BrokerError, NotAllowed, NotInGroup, ProtocolError, VersionMismatch
from broker.event.envelope import SecurityLevel
from broker.event.stream import StreamPattern
from broker.testing.determinism import deterministic
from broker.testing.simulated_network import NetworkWorld
from broker.testing.transport_network import CARRIED, OTHER, PATTERN
from plugins.rcm.handshake import decode_offer, encode_offer
from plugins.rcm.site_list import Change, SiteRecord
from tests.simulation.network.rcm_group import SiteGroup, address_of, recorded_deliveries
from tests.simulation.network.rcm_transcripts import read_entries

FOUR = ("n0", "n1", "n2", "n3")


@pytest.mark.parametrize(
    "order", ["logical", "sequencer", "hybrid", pytest.param("real-time", marks=pytest.mark.soak)]
)
def test_sites_join_and_leave_at_one_place(order: str) -> None:
    with deterministic(3), NetworkWorld(3) as world, recorded_deliveries() as delivered:
        group = SiteGroup(world, order, 3)
        group.network.publish(3)
        group.add_newcomer("n3", "n0")
        world.run(10.0)
        assert group.statuses("n3") == {"n0": "disconnected"}
        assert group.network.state_of("n0")["refused_links"] >= 1
        check_refused(group, "n3", "is not admitted to the group tested; its sites: n0, n1, n2")
        admitted = group.change("n0", "admit", "n3", address_of("n3"))
        group.network.publish(3)
        assert set(world.wait(admitted)["sites"]) == set(FOUR)
        group.wait_until_connected(*FOUR)
        # The members see the newcomer at one place.
        assert delivered["n0"] == delivered["n1"] == delivered["n2"]
        world.run(3.0)
        group.add_publisher("n3")
        group.network.publish(3)
        logs = group.settle(FOUR)
        # It has the history, and lives in the order then.
        assert sum(entry.is_recovered for entry in logs["n3"]) >= 9
        for name in FOUR:
            assert len(logs[name]) == 18 + 24
            assert [each.id for each in logs[name][18:]] == [each.id for each in logs["n0"][18:]]
            assert not any(entry.is_late or entry.is_recovered for entry in logs[name][18:])

        publisher = group.network.publishers[1]
        group.remove_publisher("n1")
        before = len(logs["n0"])
        removed = group.change("n3", "remove", "n1")
        group.network.publish(3)
        assert "n1" not in world.wait(removed)["sites"]
        group.wait_until_connected("n0", "n2", "n3")
        world.run(5.0)
        changes = {name: _changes(delivered[name])[-1] for name in ("n0", "n2", "n3")}
        assert len(set(changes.values())) == 1
        place = {name: delivered[name].index(changes[name]) for name in changes}
        tails = [tuple(delivered[name][place[name] - 4 : place[name] + 5]) for name in changes]
        assert tails[0] == tails[1] == tails[2]
        # The others go on without waiting; what is in logs stays.
        logs = {name: read_entries(world, name) for name in changes}
        assert all(len(logs[name]) == before + 9 for name in logs)
        assert not any(entry.is_late for name in logs for entry in logs[name][before:])
        check_refused(group, "n1", "was removed from the group tested by an operator of n3")
        publisher.publish(CARRIED)
        publisher.publish(OTHER)
        world.run(1.0)
        refused, accepted = [result for _, result in publisher.results[-2:]]
        assert isinstance(refused, NotInGroup) and isinstance(accepted, Receipt)
        if order == "logical":
            world.kill("n1")
            world.start("n1")
            world.run(5.0)
            check_refused(group, "n1", "an operator of n3; its sites: n0, n2, n3")
        # It comes back by an admission alone.
        group.admit("n0", "n1")
        group.wait_until_connected(*FOUR)
        group.network.publishers.append(publisher)
        group.settle(FOUR)


def test_a_node_outside_refuses_events_and_those_it_has_come_after_its_admission() -> None:
    with deterministic(8), NetworkWorld(8) as world:
        group = SiteGroup(world, "hybrid", 3)
        group.network.kill("n0")
        group.add_newcomer("n3", "n0")
        publisher = group.add_publisher("n3")
        world.run(8.0)
        # It has reached no site, and its configuration counts.
        publisher.publish(CARRIED)
        world.run_until(lambda: len(publisher.receipts) == 1)
        world.start("n0")
        world.run(8.0)
        refusal = "is not admitted to the group tested; its sites: n0, n1, n2"
        check_refused(group, "n3", refusal)
        group.network.kill("n0")
        group.network.kill("n3")
        world.start("n3")
        world.run(1.0)
        check_refused(group, "n3", refusal)
        publisher.publish(CARRIED)
        world.run_until(lambda: len(publisher.results) == 2)
        assert isinstance(publisher.results[-1][1], NotInGroup)
        world.start("n0")
        world.run(2.0)
        group.admit("n1", "n3")
        group.wait_until_connected(*FOUR)
        assert group.refusal("n3") == ""
        logs = group.settle(FOUR)
        for name in FOUR:
            (entry, *_) = [each for each in logs[name] if each.site == "n3"]
            assert name == "n3" or entry.is_late or entry.is_recovered


def test_both_sides_of_a_partition_change_one_name_and_a_removed_site_returns() -> None:
    with deterministic(9), NetworkWorld(9) as world:
        group = SiteGroup(world, "sequencer", 4)
        for one in ("n0", "n1"):
            for other in ("n2", "n3"):
                group.network.cut_datagrams(one, other)
        world.run(8.0)
        # A third outage: n3 is alone, and takes itself out above all numbers of the others.
        group.network.cut_datagrams("n2", "n3")
        world.run(8.0)
        group.network.publish(1)
        group.remove("n0", "n3")
        group.admit("n3", "n8")
        group.remove("n3", "n3")
        group.admit("n1", "n9", address_of("n9"))
        group.remove("n0", "n9")
        group.admit("n2", "n9", address_of("n9", 9100))
        # That outage lasts on.
        world.heal_transports()
        rest = ["n0", "n1", "n2"]
        for one in rest:
            group.network.cut_datagrams(one, "n3")
        group.wait_until_connected(*rest)
        lists = [group.membership(name).sites for name in rest]
        assert all(each == lists[0] for each in lists)
        # The removal had seen an admission. What a removed site has changed does not count.
        assert list(lists[0].members) == rest and lists[0].find("n8") is None
        world.heal_transports()
        world.run(5.0)
        check_refused(group, "n3", "was removed from the group tested by an operator of n3")
        assert group.admit("n2", "n3")["applied"]
        everyone = [*rest, "n3"]
        group.wait_until_connected(*everyone)
        lists = [group.membership(name).sites for name in everyone]
        assert all(each == lists[0] for each in lists)
        group.settle(everyone)


def check_refused(group: SiteGroup, name: str, text: str) -> None:
    """Check that a node refuses publications and subscriptions, and its operators."""
    assert text in group.refusal(name) and group.error(name) == ""
    transports = group.world[name].transports
    assert transports is not None
    with pytest.raises(NotInGroup, match=text):
        transports.check_carriage(CARRIED, SecurityLevel.MED)
    for pattern in (CARRIED, PATTERN):
        with pytest.raises(NotInGroup, match=text):
            transports.check_pattern(StreamPattern.parse(pattern))
    transports.check_pattern(StreamPattern.parse(">"))
    with pytest.raises(NotInGroup, match=text):
        group.remove(name, "n0")


def _changes(delivered: list[object]) -> list[object]:
    return [each for each in delivered if isinstance(each, tuple) and len(each) == 2]


def test_joins_on_both_sides_of_a_partition_unite_after_it() -> None:
    with deterministic(4), NetworkWorld(4) as world:
        group = SiteGroup(world, "hybrid", 4)
        for name, known in (("n4", "n0"), ("n5", "n2")):
            group.add_newcomer(name, known)
        world.run(5.0)
        sides = ("n0", "n1", "n4"), ("n2", "n3", "n5")
        for one in sides[0]:
            for other in sides[1]:
                group.network.cut_datagrams(one, other)
        world.run(8.0)
        group.admit("n0", "n4")
        group.admit("n2", "n5")
        # One name with two addresses: the later change counts, at all sites.
        first = group.admit("n1", "n9", address_of("n9"))
        second = group.admit("n3", "n9", address_of("n9", 9100))
        assert first["sites"]["n9"] != second["sites"]["n9"]
        for side in sides:
            group.wait_until_connected(*side, among=side)
        group.network.publish(2)
        world.heal_transports()
        everyone = [*sides[0], *sides[1]]
        group.wait_until_connected(*everyone, among=everyone)
        lists = [group.membership(name).sites for name in everyone]
        assert all(each == lists[0] for each in lists)
        assert lists[0].members["n9"] == second["sites"]["n9"]
        group.remove("n5", "n9")
        group.wait_until_connected(*everyone)
        group.settle(everyone)


def test_kills_restarts_and_empty_disks_keep_the_sites() -> None:
    with deterministic(5), NetworkWorld(5) as world:
        group = SiteGroup(world, "hybrid", 3)
        group.add_newcomer("n3", "n1")
        # A site that is away learns the change later, from the list of another one.
        group.network.kill("n2")
        world.run(8.0)
        # The admitting site dies at once: the change counts at all sites, or at none.
        group.change("n0", "admit", "n3", address_of("n3"))
        group.network.kill("n0")
        world.run(1.0)
        world.start("n0")
        world.run(10.0)
        assert group.membership("n0").sites == group.membership("n1").sites
        group.admit("n0", "n3")
        group.network.kill("n0")
        world.run(1.0)
        world.start("n0")
        world.start("n2")
        group.wait_until_connected(*FOUR)
        group.network.publish(2)
        for name in FOUR:
            group.network.kill(name)
        world.run(1.0)
        world.lose_disk("n3")
        for name in FOUR:
            world.start(name)
        group.wait_until_connected(*FOUR)
        lists = [group.membership(name).sites for name in FOUR]
        assert all(each.records == lists[0].records for each in lists)
        group.settle(FOUR)


def test_a_site_that_was_removed_while_it_was_away_returns_when_it_is_admitted_again() -> None:
    with deterministic(6), NetworkWorld(6) as world:
        group = SiteGroup(world, "hybrid", 3)
        group.network.kill("n2")
        world.run(8.0)
        group.remove("n0", "n2")
        world.start("n2")
        world.run(10.0)
        check_refused(group, "n2", "was removed from the group tested by an operator of n0")
        with pytest.raises(BrokerError, match="n2 is not one of the sites: n0, n1"):
            group.remove("n0", "n2")
        group.admit("n1", "n2")
        group.wait_until_connected("n0", "n1", "n2")
        assert group.refusal("n2") == ""
        group.settle(["n0", "n1", "n2"])


def test_wrong_offers_are_refused_and_a_change_comes_behind_a_full_disk_or_a_loss() -> None:
    with deterministic(7), NetworkWorld(7) as world:
        group = SiteGroup(world, "hybrid", 3)
        transport = group.transport("n0")
        outside = transport.own_link("n9")
        offer_of_n9 = outside.make_offer(world.clock.seconds())
        assert outside.answer_offer(offer_of_n9, world.clock.seconds()) is None
        with pytest.raises(NotAllowed, match="n9 is no site of the group tested: .*order admit"):
            outside.answer_offer(offer_of_n9, world.clock.seconds() + 1.0)
        owner = transport.own_link("n1")
        offer = decode_offer(owner.make_offer(world.clock.seconds()))
        member = SiteRecord("n9", address_of("n9"), True, Change(1, "n1", "n1", 1, 1), 1)
        ahead = Change(1 << 62, "n1", "n1", 1, 1)
        for wrong in (
            msgspec.structs.replace(offer, sites=tuple([member] * 65)),
            msgspec.structs.replace(offer, sites=(*offer.sites, member, member)),
            msgspec.structs.replace(
                offer, sites=(*offer.sites, msgspec.structs.replace(member, change=ahead))
            ),
            msgspec.structs.replace(
                offer, sites=(*offer.sites, msgspec.structs.replace(member, version=1 << 62))
            ),
            msgspec.structs.replace(offer, names=("n0", "n0")),
            msgspec.structs.replace(offer, names=tuple(f"s{each}" for each in range(513))),
        ):
            with pytest.raises(ProtocolError):
                owner.answer_offer(encode_offer(wrong), world.clock.seconds())
        fewer = msgspec.structs.replace(offer, sites=offer.sites[:2])
        with pytest.raises(VersionMismatch, match="sites is n0, n1 there and n0, n1, n2 here"):
            owner.answer_offer(encode_offer(fewer), world.clock.seconds())
        assert group.membership("n0").changes == 0

        # A change that is not on disk does not count; it does after the repair.
        failing = OSError("no space left on device")
        with (
            patch.object(group.membership("n1")._file, "write", side_effect=failing),
            patch.object(group.membership("n2"), "deliver"),
        ):
            group.admit("n0", "n9")
            world.run(5.0)
            assert not group.membership("n1").is_member("n9")
        world.run_until(lambda: group.membership("n1").is_member("n9"))
        # A change whose message is lost comes with the list of a connected site.
        assert not group.membership("n2").is_member("n9")
        world.run_until(lambda: group.membership("n2").is_member("n9"), 20.0)
        group.remove("n1", "n9")
        group.wait_until_connected("n0", "n1", "n2")
