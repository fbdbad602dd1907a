"""Messages that the links of sites have lost come from logs before the sites are connected."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from broker.config.stacks import StackInstance
from broker.event.site_notice import MissingMessages, SiteNotice, SiteStatus
from broker.testing.determinism import deterministic
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_reader import read
from broker.testing.transport_network import CARRIED, INSTANCE, TransportNetwork
from plugins.rcm.options import RcmOptions
from plugins.rcm.plugin import rcm_transport
from plugins.rcm.settings import KIB, RcmLinkSettings
from plugins.rcm.stack import rcm_links
from tests.simulation.network.rcm_transcripts import check_transcripts, read_entries
from tests.simulation.network.test_gaps import short_log

SITES = {f"n{each}": f"tcp:host=127.0.0.1:port={9000 + each}" for each in range(3)}
#: Links keep about 40 events, and a site is disconnected after 14 s.
SETTINGS = RcmLinkSettings(send_buffer_bytes=64 * KIB, suspect=14.0)


def make_group(
    world: NetworkWorld, order: str, small_logs: Collection[str] = ()
) -> TransportNetwork:
    """Return sites, some with logs of 1 MiB."""
    network = TransportNetwork(
        world,
        (rcm_transport, rcm_links),
        lambda _: StackInstance(
            INSTANCE,
            use="rcm",
            options=RcmOptions(sites=SITES, order=order),
            link_options=SETTINGS,
        ),
    )
    for name in SITES:
        settings = short_log() if name in small_logs else None
        world.add(name, "one", start=False, join=world.names[:2], settings=settings)
        network.set_carried(name, True)
        world.start(name)
    world.run(4.0)
    for name in SITES:
        network.add_publisher(name)
        network.subscribe(f"all-{name}", name, durable="d")
    world.run(2.0)
    return network


def notices_at(network: TransportNetwork, name: str) -> list[SiteNotice]:
    return [notice for _, notice in network.readers[f"all-{name}"][0].notices]


def statuses(network: TransportNetwork, name: str) -> list[tuple[str, str, str]]:
    """Return the statuses that the subscription of a site was told: site, state and reason."""
    notices = notices_at(network, name)
    return [
        (each.site, each.state, each.reason) for each in notices if isinstance(each, SiteStatus)
    ]


@pytest.mark.parametrize(
    ("order", "outage"),
    [
        ("hybrid", 20.0),
        ("sequencer", 9.0),
        *(
            pytest.param(order, outage, marks=pytest.mark.soak)
            for order in ("logical", "sequencer", "real-time", "hybrid")
            for outage in (8.0, 40.0)
        ),
    ],
)
def test_a_site_is_connected_when_lost_messages_have_come(order: str, outage: float) -> None:
    with deterministic(3), NetworkWorld(3) as world:
        network = make_group(world, order)
        network.cut("n2")
        for _ in range(round(outage)):
            network.publish(5)
            world.run(0.8)
        network.heal("n2")
        for _ in range(60):
            network.publish(1)
            world.run(0.05)
        network.settle(120.0)
        network.check_states()
        states = ["connected", "suspected", "connected"]
        if outage > SETTINGS.suspect:
            states.insert(2, "disconnected")
        for name in SITES:
            assert network.state_of(name)["lost_sends"] > 0
            told = statuses(network, name)
            for other in SITES.keys() - {name}:
                is_cut = "n2" in (name, other)
                found = [state for site, state, _ in told if site == other]
                assert found == (states if is_cut else ["connected"]), told
        check_transcripts(world, order, list(SITES), lost_commits=False)


def test_lost_messages_come_from_an_origin_that_has_no_interest_of_the_site(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The origin's node selects frames and pages by the interest that it has: they would be empty,
    and claim that no event is missing."""
    with deterministic(3), NetworkWorld(3) as world:
        network = make_group(world, "hybrid")
        origin = world["n0"].network
        assert origin is not None
        interest = origin.driver.remote_interest
        interest.clear()
        monkeypatch.setattr(interest, "install", lambda *_: False)
        publisher = network.publishers[0]
        network.cut("n2")
        for _ in range(100):
            publisher.publish(CARRIED)
            world.run(0.08)
        assert network.state_of("n0")["lost_sends"] > 0
        network.heal("n2")
        network.settle(120.0)


@pytest.mark.parametrize("holder", ["archive", "another site", "none"])
def test_messages_that_their_origin_removed_come_from_others_or_are_missing(holder: str) -> None:
    with deterministic(3), NetworkWorld(3, archived=holder == "archive") as world:
        small_logs = {"n0"} if holder == "another site" else {"n0", "n1"}
        network = make_group(world, "hybrid", small_logs)
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
        network.check_states()
        missing = [each for each in notices_at(network, "n2") if isinstance(each, MissingMessages)]
        found = [entry.number for entry in read_entries(world, "n2")]
        if holder == "none":
            assert missing, statuses(network, "n2")
            numbers = [n for each in missing for n in range(each.first, each.last + 1)]
            assert sorted([*found, *numbers]) == list(range(1, 63)) and found[0] == 1
        else:
            assert found == list(range(1, 63)) and missing == []
        told = notices_at(network, "n2")
        states = [
            each.state if isinstance(each, SiteStatus) else "missing"
            for each in told
            if isinstance(each, SiteStatus | MissingMessages) and each.site == "n0"
        ]
        assert states == [
            *("connected", "suspected", "disconnected"),
            *["missing"] * len(missing),
            "connected",
        ], told
