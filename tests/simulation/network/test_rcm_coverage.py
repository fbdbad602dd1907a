"""Sites tell each other, and subscriptions, which messages they have logged and delivered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any
from unittest.mock import patch

import pytest

from broker.event.site_coverage import Arrival, CoverageTable
from broker.event.site_notice import MissingMessages, SiteCoverage, SiteNotice
from broker.testing.determinism import deterministic
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_reader import Reader, read
from broker.testing.transport_network import CARRIED, INSTANCE, TransportNetwork
from plugins.rcm.coverage.packet import MARK
from plugins.rcm.transport import RcmTransport
from tests.simulation.network.rcm_transcripts import read_entries
from tests.simulation.network.test_rcm_losses import SITES, make_group


def coverage_of(notices: Iterable[SiteNotice]) -> dict[str, CoverageTable]:
    """Return what a subscription knows of each site."""
    tables: dict[str, CoverageTable] = {}
    for notice in notices:
        if isinstance(notice, SiteCoverage):
            assert notice.stack == INSTANCE
            table = tables.setdefault(notice.site, CoverageTable())
            for row in notice.covered:
                table.add(row)
    return tables


def known_by(reader: Reader) -> dict[str, CoverageTable]:
    return coverage_of(notice for _, notice in reader.notices)


def newest(network: TransportNetwork, name: str) -> Reader:
    return network.readers[f"all-{name}"][-1]


def states_of(
    tables: dict[str, CoverageTable], ids: Iterable[tuple[str, int, int]], site: str
) -> Counter[str]:
    table = tables.get(site, CoverageTable())
    return Counter(table.arrival_of(*id).value for id in ids)


def ids_at(world: NetworkWorld, name: str) -> list[tuple[str, int, int]]:
    return [entry.id for entry in read_entries(world, name)]


def check_all_is_delivered(
    world: NetworkWorld, network: TransportNetwork, names: Iterable[str] = SITES
) -> None:
    """Check that subscriptions of some sites know that all others have all messages."""
    ids = ids_at(world, "n0")
    for name in names:
        for other in SITES.keys() - {name}:
            found = states_of(known_by(newest(network, name)), ids, other)
            assert found == {Arrival.DELIVERED.value: len(ids)}, (name, other)


def count_reports(network: TransportNetwork) -> Any:
    """Return a patch and the times of reports by sender and receiver."""
    times: dict[tuple[str, str], list[float]] = {}
    send = RcmTransport._send

    def counted(self: RcmTransport, data: Any, sites: Any) -> Any:
        for site in sites if any(each.startswith(MARK) for each in data) else ():
            key = self._context.node, site
            times.setdefault(key, []).append(network.world.clock.seconds())
        return send(self, data, sites)

    return patch.object(RcmTransport, "_send", counted), times


@pytest.mark.parametrize("order", ["hybrid", pytest.param("sequencer", marks=pytest.mark.soak)])
def test_sites_report_at_most_once_a_second_and_not_when_idle(order: str) -> None:
    with deterministic(3), NetworkWorld(3) as world:
        network = make_group(world, order)
        patched, times = count_reports(network)
        with patched:
            for _ in range(20):
                network.publish(1)
                world.run(0.2)
            network.settle(60.0)
            read(world, *(newest(network, name) for name in SITES))
            check_all_is_delivered(world, network)
            assert len(times) == 6
            for each in times.values():
                assert len(each) >= 4
                assert min(b - a for a, b in zip(each, each[1:], strict=False)) > 0.99
            times.clear()
            world.run(30.0)
            assert times == {}


def test_a_site_that_is_cut_off_has_what_it_had_until_it_returns() -> None:
    with deterministic(3), NetworkWorld(3) as world:
        network = make_group(world, "hybrid")
        network.publish(3)
        network.settle(60.0)
        before = ids_at(world, "n0")
        network.cut("n2")
        world.run(8.0)
        network.publish(3)
        world.run(5.0)
        read(world, newest(network, "n0"))
        own = [id for id in ids_at(world, "n0") if id[0] == "n0"]
        tables = known_by(newest(network, "n0"))
        assert states_of(tables, own, "n1") == {"delivered": len(own)}
        old = sum(id in before for id in own)
        assert states_of(tables, own, "n2") == {"delivered": old, "expected": len(own) - old}
        network.heal("n2")
        network.settle(60.0)
        check_all_is_delivered(world, network)


def test_after_a_restart_sites_tell_again_what_they_have_without_a_new_message() -> None:
    with deterministic(3), NetworkWorld(3) as world:
        network = make_group(world, "hybrid")
        network.publish(5)
        network.settle(60.0)
        for restarted in ("n2", "n0"):
            # The other site knows it from its log, and that of the client from the others.
            network.kill(restarted)
            world.run(3.0)
            world.start(restarted)
            world.run(15.0)
            late = network.subscribe(f"late-{restarted}", "n0")
            read(world, late)
            ids = ids_at(world, "n0")
            assert late.events == [] and {id[0] for id in ids} == SITES.keys()
            for other in ("n1", "n2"):
                assert states_of(known_by(late), ids, other) == {"delivered": len(ids)}, restarted
        # A new process of a site begins new numbers. It dies before the others report them.
        network.publish(2)
        world.run(0.1)
        network.kill("n0")
        world.run(3.0)
        world.start("n0")
        network.settle(60.0)
        check_all_is_delivered(world, network)


def test_a_site_counts_events_only_when_its_log_has_them() -> None:
    with deterministic(3), NetworkWorld(3) as world:
        network = make_group(world, "hybrid")
        network.publish(2)
        network.settle(60.0)
        publisher = network.publishers[0]
        world.set_disk_full("n2", True)
        publisher.publish(CARRIED)
        world.run(10.0)
        read(world, newest(network, "n0"))
        last = ids_at(world, "n0")[-1]
        tables = known_by(newest(network, "n0"))
        assert states_of(tables, [last], "n1") == {"delivered": 1}
        assert states_of(tables, [last], "n2") == {"expected": 1}
        world.set_disk_full("n2", False)
        network.settle(120.0)
        check_all_is_delivered(world, network)


def test_missing_messages_are_told_to_the_site_of_their_sender() -> None:
    with deterministic(3), NetworkWorld(3) as world:
        network = make_group(world, "hybrid", {"n0", "n1"})
        publisher = network.publishers[0]
        publisher.publish(CARRIED)
        world.run(5.0)
        network.cut("n2")
        for _ in range(60):
            publisher.publish(CARRIED, size=50_000)
            world.run(0.5)
        network.heal("n2")
        publisher.publish(CARRIED)
        world.run(60.0)
        read(world, *(readers[0] for readers in network.readers.values()))
        told = [notice for _, notice in newest(network, "n2").notices]
        missing = {
            ("n0", each.incarnation, number)
            for each in told
            if isinstance(each, MissingMessages)
            for number in range(each.first, each.last + 1)
        }
        here = set(ids_at(world, "n2"))
        assert missing and not missing & here
        tables = known_by(newest(network, "n0"))
        assert states_of(tables, missing, "n2") == {"missing": len(missing)}
        assert states_of(tables, here, "n2") == {"delivered": len(here)}
        assert states_of(tables, missing, "n1") == {"delivered": len(missing)}
