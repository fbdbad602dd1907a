"""One contract of all fan-outs: a message reaches each destination as over its own link (R33)."""

from __future__ import annotations

from itertools import permutations

import pytest

from broker.errors import Closed
from broker.testing.fan_out_network import FanOutNetwork, Received
from broker.transport.message import Outcome
from broker.transport.view import LinkState
from tests.seeds import seeds
from tests.transport.multicast.fan_outs import FAN_OUTS, SIZE, TEN, link_sites, text

CONNECTED, SUSPECTED = LinkState.CONNECTED, LinkState.SUSPECTED
DISCONNECTED = LinkState.DISCONNECTED
SENT, FULL, ABSENT = Outcome.SENT, Outcome.FULL, Outcome.ABSENT

every_fan_out = pytest.mark.parametrize("fan_out", FAN_OUTS)


def others(network: FanOutNetwork, name: str) -> list[str]:
    return [each for each in network.sites if each != name]


def check_all_arrived(network: FanOutNetwork) -> None:
    """Each destination has each accepted message once, in order."""
    for one, other in permutations(network.sites.values(), 2):
        assert other.received_from(one.name) == one.sent[other.name], f"{one.name} {other.name}"
        assert one.errors == []


@every_fan_out
def test_a_message_reaches_each_of_its_destinations_once_and_no_other(fan_out: str) -> None:
    network = link_sites(fan_out, *TEN)
    for number in range(50):
        for name in network.sites:
            some = network.random.sample(others(network, name), network.random.randrange(10))
            assert set(network.sites[name].send(text(number), *some).values()) <= {SENT}
        network.run(0.01)
    network.run(1.0)
    check_all_arrived(network)


@every_fan_out
def test_messages_of_all_sizes_keep_their_order(fan_out: str) -> None:
    network = link_sites(fan_out, *"abcdef")
    for number in range(60):
        size = network.random.choice((0, 10, 500, 5_000, 100_000))
        network.sites["a"].send(text(number, size), *others(network, "a"))
        if number % 10 == 0:
            network.run(0.1)
    network.run(2.0)
    check_all_arrived(network)


@every_fan_out
def test_each_destination_has_its_outcome(fan_out: str) -> None:
    network = link_sites(fan_out, *"abcde", suspect=2.0)
    network.kill("e")
    network.run(3.0)
    outcomes = network.sites["a"].send(text(1), "b", "c", "d", "e", "unknown")
    assert outcomes == dict.fromkeys("bcd", SENT) | dict.fromkeys(("e", "unknown"), ABSENT)
    network.run(1.0)
    check_all_arrived(network)


@every_fan_out
def test_a_suspected_site_gets_messages_only_when_its_own_link_is_back(fan_out: str) -> None:
    """The others could pass them on: A and B, B and C are linked, and A and C are not."""
    network = link_sites(fan_out, *"abcdef")
    a, f = network.sites["a"], network.sites["f"]
    network.part("a", "f")
    for number in range(120):
        assert a.send(text(number), *others(network, "a")) == dict.fromkeys("bcdef", SENT)
        network.sites["b"].send(text(number), *others(network, "b"))
        network.run(0.1)
    assert (a.states["f"], f.states["a"]) == (SUSPECTED, SUSPECTED)
    assert f.received_from("a") == []
    assert len(f.received_from("b")) == 120
    assert len(network.sites["c"].received_from("a")) == 120
    network.unite("a", "f")
    network.run(5.0)
    check_all_arrived(network)
    first = next(each.time for each in f.received if each.peer == "a")
    back = [time for time, peer, view in f.views if peer == "a" and view.state is CONNECTED]
    assert first >= back[-1]


@every_fan_out
def test_a_disconnected_site_delivers_nothing_before_it_is_connected(fan_out: str) -> None:
    network = link_sites(fan_out, *"abcdef", suspect=3.0)
    network.part("a", "f")
    for number in range(200):
        network.sites["a"].send(text(number), *others(network, "a"))
        network.run(0.1)
    assert network.sites["f"].states["a"] is DISCONNECTED
    network.unite("a", "f")
    network.run(5.0)
    check_all_arrived(network)
    assert_nothing_between(network)


def assert_nothing_between(network: FanOutNetwork) -> None:
    """No message comes after DISCONNECTED, before CONNECTED."""
    for site in network.sites.values():
        for peer in others(network, site.name):
            views = [(time, view.state) for time, name, view in site.views if name == peer]
            for (time, state), (end, _) in zip(views, [*views[1:], (1e9, None)], strict=True):
                for each in site.received if state is DISCONNECTED else ():
                    assert each.peer != peer or not time < each.time < end


@every_fan_out
def test_a_lost_site_delays_no_other(fan_out: str) -> None:
    network = link_sites(fan_out, *TEN)
    times = {}
    for number in range(100):
        if number == 20:
            for other in others(network, "b"):
                network.part("b", other)
        times[text(number)] = network.clock.seconds()
        network.sites["a"].send(text(number), *others(network, "a"))
        network.run(0.1)
    network.run(1.0)
    for name in others(network, "a"):
        if name != "b":
            received = network.sites[name].received
            assert [each.message for each in received] == list(times)
            assert max(each.time - times[each.message] for each in received) < 0.5


@every_fan_out
def test_a_restarted_site_gets_later_messages_and_no_message_twice(fan_out: str) -> None:
    network = link_sites(fan_out, *"abcdef")
    a, b = network.sites["a"], network.sites["b"]
    for number in range(150):
        if number == 50:
            network.kill("f")
        if number == 100:
            network.start("f")
        a.send(text(number), *others(network, "a"))
        b.send(text(number), *others(network, "b"))
        network.run(0.1)
    network.run(2.0)
    f = network.sites["f"]
    for name in "ab":
        numbers = [int(message[:6]) for message in f.received_from(name)]
        assert numbers == list(range(numbers[0], 150))
        assert numbers[0] <= 102
        views = [view for _, peer, view in network.sites[name].views if peer == "f"]
        assert views[-1].state is CONNECTED
        assert not views[-1].resumed
        assert views[-1].undelivered >= numbers[0] - 50
    for name in "cde":
        for sender in (a, b):
            assert network.sites[name].received_from(sender.name) == sender.sent[name]


@every_fan_out
def test_the_messages_of_a_killed_site_stop_without_a_gap(fan_out: str) -> None:
    network = link_sites(fan_out, *TEN, seed=3)
    sent = [text(number) for number in range(100)]
    for message in sent[:50]:
        network.sites["c"].send(message, *others(network, "c"))
        network.run(0.004)
    network.kill("c")
    network.run(1.0)
    network.start("c")
    network.run(3.0)
    for message in sent[50:]:
        network.sites["c"].send(message, *others(network, "c"))
        network.run(0.01)
    network.run(1.0)
    for name in others(network, "c"):
        received = network.sites[name].received_from("c")
        before = received[: len(received) - 50]
        assert received == [*sent[: len(before)], *sent[50:]]
        assert len(before) >= 30


@every_fan_out
def test_a_site_that_consumes_nothing_is_full_and_slows_no_other(fan_out: str) -> None:
    network = link_sites(fan_out, *"abcdef")
    network.sites["f"].consumes = False
    found, count = SENT, 0
    while found is SENT and count < 300:
        outcomes = network.sites["a"].send(text(count, 100_000), *others(network, "a"))
        assert set(outcomes.values()) <= {SENT, FULL}
        assert {name for name, each in outcomes.items() if each is FULL} <= {"f"}
        found = outcomes["f"]
        count += 1
        network.run(0.05)
    assert found is FULL
    # Its window, a half of the buffer, and what a fan-out keeps.
    assert count < 150
    assert len(network.sites["e"].received_from("a")) == count
    network.sites["f"].consumes = True
    network.sites["f"].driver.consumed("a", len(network.sites["f"].received_from("a")))
    network.run(2.0)
    check_all_arrived(network)


@every_fan_out
def test_a_removed_site_leaves_nothing_behind(fan_out: str) -> None:
    network = link_sites(fan_out, *"abcdef")
    for name in others(network, "f"):
        network.sites[name].send(text(1), *others(network, name))
    network.kill("f")
    network.run(30.0)
    for name in "abcde":
        site = network.sites[name]
        site.driver.remove("f", Closed("removed"))
        outcomes = site.send(text(2), *others(network, name))
        assert [peer for peer, each in outcomes.items() if each is not SENT] == ["f"]
    network.run(1.0)
    for one, other in permutations("abcde", 2):
        assert len(network.sites[one].received_from(other)) == 2
        assert network.sites[one].errors == []


@pytest.mark.parametrize("seed", seeds(1, 100, first=1))
@every_fan_out
def test_any_schedule_of_faults_keeps_order_and_loses_nothing(fan_out: str, seed: int) -> None:
    network = link_sites(fan_out, *TEN[: 4 + seed % 7], seed=seed, datagram_loss=0.05)
    random, names = network.random, list(network.sites)
    restarted = set()
    for number in range(300):
        name = random.choice(names)
        some = random.sample(others(network, name), random.randrange(1, len(names)))
        network.sites[name].send(text(number, random.choice((10, SIZE, 20_000))), *some)
        one, other = random.sample(names, 2)
        match random.randrange(40):
            case 0:
                network.silence(one, other)
            case 1:
                network.part(one, other)
            case 2 | 3 | 4:
                network.unite(one, other)
            case 5 | 6:
                network.cut(one, other)
            case 7 if seed % 2:
                restarted.add(one)
                network.kill(one)
                network.start(one)
        network.run(random.choice((0.0, 0.01, 0.1, 0.5)))
    for one, other in permutations(names, 2):
        network.unite(one, other)
    network.run(30.0)
    check_schedule(network, restarted)


def check_schedule(network: FanOutNetwork, restarted: set[str]) -> None:
    assert_nothing_between(network)
    for one, other in permutations(network.sites.values(), 2):
        sent, received = one.sent[other.name], other.received_from(one.name)
        assert one.errors == []
        assert one.states[other.name] is CONNECTED
        if not {one.name, other.name} & restarted:
            assert received == sent, f"{one.name} {other.name}"
        else:
            places = [number_of(each) for each in other.received if each.peer == one.name]
            assert places == sorted(set(places))


def number_of(received: Received) -> int:
    return int(received.message[:6])


@every_fan_out
def test_lost_bodies_do_not_block_links_with_small_windows(fan_out: str) -> None:
    """Requested bodies come behind messages that wait for them."""
    network = link_sites(fan_out, *"abcdef", window_bytes=64 * 1024, send_buffer_bytes=256 * 1024)
    network.datagrams.filter = lambda *_: False
    network.part("b", "f")
    network.part("c", "f")
    for number in range(300):
        size = 1000 if number % 3 else 15_000
        network.sites["a"].send(text(number, size), *others(network, "a"))
        network.run(0.002)
    network.run(2.0)
    assert len(network.sites["f"].received_from("a")) > 100
    network.unite("b", "f")
    network.unite("c", "f")
    network.run(5.0)
    check_all_arrived(network)
