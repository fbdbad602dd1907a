"""Single outages, each of all variants (RCM R16, R25, R42; A8)."""

from __future__ import annotations

from itertools import permutations

import pytest

from broker.testing.order.checker import check
from broker.testing.order.run import Run
from broker.testing.order.schedule import Publish, SetPath, Shape, Timed
from broker.testing.order.simulation import Simulation
from broker.testing.order.timeline import Timeline
from broker.transport.order import VARIANTS, MessageId
from broker.transport.view import LinkState

pytestmark = pytest.mark.parametrize("variant", VARIANTS)


def silence(begin: float, end: float, *pairs: str) -> list[Timed]:
    """Silence both directions of pairs."""
    actions: list[Timed] = []
    for pair in pairs:
        for one, other in permutations(pair):
            actions += [(begin, SetPath(one, other, False)), (end, SetPath(one, other, True))]
    return actions


def traffic(until: float) -> list[Timed]:
    """Return a message of each site each second."""
    return [
        (2.0 + second + offset, Publish(site))
        for second in range(int(until) - 2)
        for site, offset in (("a", 0.0), ("b", 0.3), ("c", 0.3))
    ]


def run_actions(variant: str, actions: list[Timed], end: float = 60.0) -> Run:
    actions = sorted(actions, key=lambda action: action[0])
    shape = Shape(faulty=end - 1.0, calm=1.0)
    simulation = Simulation(VARIANTS[variant], 1, shape, sites="abc", actions=actions)
    run = simulation.execute()
    violations = check(run)
    assert not violations, "\n".join(map(str, violations))
    return run


def ids(run: Run, site: str) -> list[MessageId]:
    return [each.id for each in run.deliveries[site, 1]]


def test_without_faults_nothing_is_late_and_nobody_is_suspected(variant: str) -> None:
    run = run_actions(variant, traffic(40.0))
    assert ids(run, "a") == ids(run, "b") == ids(run, "c")
    assert len(ids(run, "a")) == len(run.sent)
    assert not any(each.late for deliveries in run.deliveries.values() for each in deliveries)
    assert {each.state for each in run.statuses} == {LinkState.CONNECTED}


def test_a_site_that_is_cut_off_delays_the_others_until_it_is_suspected(variant: str) -> None:
    run = run_actions(variant, traffic(50.0) + silence(20.0, 30.0, "ac", "bc"))
    together = [id for id in ids(run, "a") if id.site != "c"]
    assert together == [id for id in ids(run, "b") if id.site != "c"]
    assert {id.site for id in ids(run, "a")} == {"a", "b", "c"}
    assert set(ids(run, "a")) == set(ids(run, "c"))
    late = [each for each in run.deliveries["a", 1] if each.late]
    assert {each.id.site for each in late} <= {"c"}
    waits = [
        each.time - run.sent[each.id].time for each in run.deliveries["a", 1] if each not in late
    ]
    assert max(waits) < 14.5


def test_two_sites_that_do_not_see_each_other_block_nobody(variant: str) -> None:
    """a and b are connected, and b and c, but not a and c (R16)."""
    run = run_actions(variant, traffic(50.0) + silence(10.0, 55.0, "ac"))
    timeline = Timeline(run)
    assert timeline.are_connected("a", "b", 20.0, 50.0)
    assert timeline.are_connected("b", "c", 20.0, 50.0)
    assert not timeline.connected["a", "c"].touches(20.0, 50.0)
    waits = {
        site: [
            each.time - run.sent[each.id].time
            for each in run.deliveries[site, 1]
            if 19.9 < run.sent[each.id].time < 49.9 and each.id.site in sites
        ]
        for site, sites in (("a", "ab"), ("b", "abc"), ("c", "bc"))
    }
    assert {site: len(each) for site, each in waits.items()} == {"a": 60, "b": 90, "c": 60}
    assert max(max(each) for each in waits.values()) < 2.0


def test_sites_that_always_have_a_commit_under_way_are_connected_in_time(variant: str) -> None:
    """The checker has the bound."""
    actions = [
        (2.0 + number / 25 + offset, Publish(site, commit=0.12))
        for number in range(600)
        for site, offset in (("a", 0.0), ("b", 0.012))
    ]
    run = run_actions(variant, actions + silence(10.0, 18.0, "ab", "ac"), 30.0)
    begins = {each.time for each in run.statuses if each.state is LinkState.CONNECTED}
    assert len([begin for begin in begins if begin > 18.0]) >= 4
    waits = [each.time - run.sent[each.id].time for each in run.deliveries["c", 1][-250:]]
    assert max(waits) < 1.0


def test_a_disconnected_site_gets_messages_again_after_its_return(variant: str) -> None:
    run = run_actions(variant, traffic(50.0) + silence(10.0, 36.0, "ac", "bc"))
    states = [each.state for each in run.statuses if each.process[0] == "c"]
    assert LinkState.DISCONNECTED in states
    after = [id for id, sent in run.sent.items() if sent.time > 42.0]
    for site in "abc":
        assert [id for id in ids(run, site) if id in after] == [
            id for id in ids(run, "a") if id in after
        ]
        assert set(after) <= set(ids(run, site))
