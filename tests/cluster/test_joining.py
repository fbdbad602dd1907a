from __future__ import annotations

import random

import attrs
import pytest

from broker.cluster.acceptor import Acceptor
from broker.cluster.address import Address, UnitPath, check_name
from broker.cluster.admission import AdmissionContext, AdmissionRules
from broker.cluster.descriptor import Endpoint, NodeDescriptor
from broker.cluster.handshake_core import Accepted, Refusal, Refused
from broker.cluster.handshake_messages import MAGIC, MEMBER, NONCE_BYTES, Alternative, NodeHello
from broker.cluster.joining import (
    CUT_OFF_TIMEOUT,
    FOUNDING_DELAY,
    LONGEST_BACKOFF,
    MOST_ASKED,
    SHORTEST_BACKOFF,
    AskNode,
    Effect,
    Founded,
    Joined,
    Joining,
    JoiningState,
    RoundFailed,
    cluster_name,
)
from broker.errors import (
    AddressNotAllowed,
    BrokerError,
    ClusterFull,
    NotConnected,
    TooManyLinks,
)
from tests.cluster.sample_nodes import a_node

A, B, C = (Endpoint(host, 1) for host in "abc")
FULL = ClusterFull("full")


def joining(*seeds: Endpoint, name: str = "new") -> Joining:
    return Joining(name, seeds, random.Random(1))


def refused(*alternatives: Endpoint, cluster: UnitPath = ("x", "c1")) -> Refused:
    named = tuple(Alternative(Address(("d",), each.host), each) for each in alternatives)
    return Refused(FULL, named, cluster, by_peer=True)


def accepted(text: str) -> Accepted:
    return Accepted(a_node(text), True, 1, MEMBER, (a_node("c/m2"),), admitted=9)


def test_the_first_acceptance_ends_joining() -> None:
    one = joining(A, B)
    assert one.start(0.0) == [AskNode(A)]
    assert one.dial_failed(NotConnected("down"), 0.1) == [AskNode(B)]
    (joined,) = one.join_accepted(accepted("c/m1"), 0.2)
    assert isinstance(joined, Joined)
    assert (joined.cluster, joined.admitted) == (("c",), 9)
    assert one.state is JoiningState.MEMBER
    one.set_member_links(1, 0.3)
    assert one.next_timeout() is None


def test_alternatives_are_asked_once_a_round() -> None:
    one = joining(A)
    one.start(0.0)
    assert one.join_refused(refused(B, A), 0.1) == [AskNode(B)]
    assert one.join_refused(refused(A, B, C), 0.2) == [AskNode(C)]
    (rest,) = one.join_refused(refused(A), 0.3)
    assert isinstance(rest, RoundFailed)


def test_chains_of_alternatives_are_bounded() -> None:
    one = joining(A)
    effects = one.start(0.0)
    asked = 0
    while isinstance(effects[0], AskNode):
        asked += 1
        effects = one.join_refused(refused(Endpoint(f"x{asked}", 1), Endpoint(f"y{asked}", 1)), 0.1)
    assert asked == MOST_ASKED


@pytest.mark.parametrize("error", [FULL, AddressNotAllowed("not here")], ids=["full", "address"])
def test_after_two_rounds_without_room_a_cluster_is_founded(
    error: BrokerError,
) -> None:
    def refused(cluster: UnitPath) -> Refused:
        return Refused(error, (), cluster, by_peer=True)

    one = joining(A, B)
    one.start(0.0)
    one.join_refused(refused(cluster=("x", "c1")), 0.1)
    (rest,) = one.join_refused(refused(cluster=("x", "c2")), 0.2)
    assert isinstance(rest, RoundFailed)
    wake = one.next_timeout()
    assert wake is not None
    assert one.handle_timeout(wake - 0.001) == []
    assert one.handle_timeout(wake) == [AskNode(A)]
    one.join_refused(refused(cluster=("x", "c1")), 3.0)
    assert one.join_refused(refused(cluster=("x", "c2")), 3.1) == [Founded(("x", "c-new"), A)]
    assert one.state is JoiningState.FOUNDER
    one.set_member_links(0, 3.2)
    assert one.next_timeout() is None


def test_nodes_without_room_ask_again_at_different_times() -> None:
    waits = []
    for seed in range(100):
        one = Joining("new", [A], random.Random(seed))
        one.start(0.0)
        (rest,) = one.join_refused(refused(), 0.0)
        assert isinstance(rest, RoundFailed)
        waits.append(rest.wait)
    assert 0.0 <= min(waits) < 0.2 < FOUNDING_DELAY - 0.2 < max(waits) <= FOUNDING_DELAY


def test_no_cluster_is_founded_beside_the_whole_network() -> None:
    one = joining(A)
    effects = one.start(0.0)
    for _round in range(5):
        effects = one.join_refused(refused(cluster=()), 0.0)
        assert isinstance(effects[0], RoundFailed)
        effects = one.handle_timeout(1e9)


def test_other_refusals_do_not_found_a_cluster() -> None:
    one = joining(A)
    effects = one.start(0.0)
    for _round in range(5):
        assert effects == [AskNode(A)]
        (rest,) = one.join_refused(Refused(TooManyLinks("no"), (), ("c",), by_peer=True), 0.0)
        assert isinstance(rest, RoundFailed) and isinstance(rest.error, TooManyLinks)
        effects = one.handle_timeout(1e9)


def test_rounds_back_off() -> None:
    one = joining(A)
    now, rests = 0.0, []
    one.start(now)
    for _round in range(12):
        (rest,) = one.dial_failed(NotConnected("down"), now)
        assert isinstance(rest, RoundFailed)
        rests.append(rest.wait)
        now += rest.wait
        assert one.next_timeout() == now
        one.handle_timeout(now)
    assert rests[0] < 1 < 10 < rests[-1] <= LONGEST_BACKOFF


def test_the_first_two_rests_are_random_within_the_backoff() -> None:
    rests: list[list[float]] = [[], []]
    for seed in range(100):
        one = Joining("new", [A], random.Random(seed))
        one.start(0.0)
        for each in rests:
            (rest,) = one.dial_failed(NotConnected("down"), 0.0)
            assert isinstance(rest, RoundFailed)
            each.append(rest.wait)
            one.handle_timeout(1e9)
    for each, longest in zip(rests, (SHORTEST_BACKOFF, 2 * SHORTEST_BACKOFF), strict=True):
        assert 0.8 * longest < max(each) <= longest


def test_without_seeds_joining_waits_for_discovery() -> None:
    one = joining()
    (rest,) = one.start(0.0)
    assert isinstance(rest, RoundFailed) and isinstance(rest.error, NotConnected)
    assert one.set_seeds([A], 0.1) == [AskNode(A)]
    assert one.set_seeds([B], 0.2) == []


def test_an_admitted_node_without_a_link_asks_again() -> None:
    one = joining(A)
    one.start(0.0)
    one.join_accepted(accepted("c/m1"), 0.1)
    assert one.handle_timeout(CUT_OFF_TIMEOUT) == []
    assert one.handle_timeout(0.1 + CUT_OFF_TIMEOUT) == [AskNode(Endpoint("m1", 4000))]


def test_a_quick_reconnection_does_not_restart_joining() -> None:
    one = joining(A)
    one.start(0.0)
    one.join_accepted(accepted("c/m1"), 0.1)
    one.set_member_links(1, 0.2)
    one.set_member_links(0, 10.0)
    assert one.next_timeout() == 10.0 + CUT_OFF_TIMEOUT
    one.set_member_links(1, 11.0)
    assert one.next_timeout() is None


def test_after_a_loss_known_members_are_asked_first() -> None:
    one = joining(A)
    one.start(0.0)
    one.join_accepted(accepted("c/m1"), 0.1)
    assert one.rejoin(5.0) == [AskNode(Endpoint("m1", 4000))]
    assert one.dial_failed(NotConnected("down"), 5.1) == [AskNode(Endpoint("m2", 4000))]
    assert one.dial_failed(NotConnected("down"), 5.2) == [AskNode(A)]


def test_a_link_alone_makes_no_member() -> None:
    one = joining(A)
    one.start(0.0)
    one.set_member_links(1, 0.1)
    assert one.state is JoiningState.ASKING
    one.join_accepted(accepted("c/m1"), 0.2)
    assert one.rejoin(0.3) == [AskNode(Endpoint("m1", 4000))]
    one.set_member_links(1, 0.4)
    assert one.state is JoiningState.ASKING


def test_rejoining_counts_rounds_from_zero() -> None:
    one = joining(A)
    one.start(0.0)
    for now in (1.0, 100.0):
        (rest,) = one.join_refused(refused(), now)
        assert isinstance(rest, RoundFailed), "not the second round without a place"
        one.handle_timeout(now + 50.0)
        one.join_accepted(accepted("c/m1"), now + 51.0)
        one.rejoin(now + 52.0)
        for _former_member in range(2):
            one.dial_failed(NotConnected("down"), now + 53.0)


def test_a_round_reports_only_its_own_error() -> None:
    one = joining(A)
    one.start(0.0)
    (rest,) = one.dial_failed(NotConnected("down"), 0.1)
    assert isinstance(rest, RoundFailed) and str(rest.error) == "down" and len(rest.asked) == 1
    one.set_seeds([], 0.2)
    (rest,) = one.handle_timeout(100.0)
    assert isinstance(rest, RoundFailed) and "name no node to ask" in str(rest.error)
    assert rest.asked == ()


def test_late_answers_are_ignored() -> None:
    one = joining(A)
    assert one.join_accepted(accepted("c/m1"), 0.0) == []
    assert one.join_refused(refused(), 0.0) == one.dial_failed(FULL, 0.0) == []
    one.start(0.0)
    one.join_accepted(accepted("c/m1"), 0.1)
    assert one.join_refused(refused(B), 0.2) == one.dial_failed(FULL, 0.2) == []
    one.set_member_links(1, 0.3)
    assert one.handle_timeout(1e9) == []


def test_cluster_names_derive_from_their_founders() -> None:
    assert cluster_name("n7") == "c-n7"
    long = [cluster_name("x" * 63 + end) for end in "ab"]
    assert len({check_name(name) for name in long}) == 2
    assert cluster_name("x" * 62) == "c-" + "x" * 62


@attrs.define
class Clusters:
    """Clusters of at most `most` nodes, with membership known to all at once."""

    most: int
    at: dict[Endpoint, NodeDescriptor] = attrs.field(factory=dict)
    clock: float = 0.0

    def settle(self, node: NodeDescriptor) -> None:
        assert node.tcp
        self.at[node.tcp] = node

    def in_cluster(self, unit: UnitPath) -> dict[str, NodeDescriptor]:
        return {node.name: node for node in self.at.values() if node.address.unit == unit}

    def ask(self, endpoint: Endpoint, who: NodeDescriptor) -> Accepted | Refused:
        own = self.at[endpoint]
        unit = own.address.unit
        others = tuple(
            Alternative(node.address, at)
            for at, node in self.at.items()
            if node.address.unit != unit
        )
        rules = AdmissionRules(self.most, {"tcp": 1000})
        context = AdmissionContext(own, self.in_cluster(unit), {}, {}, others)
        hello = NodeHello(MAGIC, (1,), "net", who, MEMBER, (), bytes(NONCE_BYTES))
        decision = Acceptor(rules, lambda: context).decide_admission(
            hello, "192.0.2.1", "tcp", self.clock, int(self.clock * 1000)
        )
        if isinstance(decision, Refusal):
            return Refused(decision.error, decision.alternatives, unit, by_peer=True)
        return Accepted(own, False, 1, MEMBER, decision.members, decision.peer.admitted)


@pytest.mark.parametrize("seed", range(10))
def test_forty_nodes_settle_in_clusters_within_the_limit(seed: int) -> None:
    rng = random.Random(seed)
    clusters = Clusters(most=8)
    clusters.settle(a_node("x.c1/n00"))
    seed_node = Endpoint("n00", 4000)
    coming = {
        f"n{number:02}": Joining(f"n{number:02}", [seed_node], rng) for number in range(1, 41)
    }
    todo: list[tuple[float, str, AskNode | None]] = [(0.0, name, None) for name in coming]
    while todo:
        todo.sort(key=lambda item: (item[0], item[1]))
        clusters.clock, name, ask = todo.pop(0)
        one = coming[name]
        effects: list[Effect]
        if one.state is JoiningState.NOT_STARTED:
            effects = one.start(clusters.clock)
        elif ask is None:
            effects = one.handle_timeout(clusters.clock)
        else:
            answer = clusters.ask(ask.endpoint, a_node(f"/{name}"))
            if isinstance(answer, Accepted):
                effects = one.join_accepted(answer, clusters.clock)
            else:
                effects = one.join_refused(answer, clusters.clock)
        for effect in effects:
            match effect:
                case AskNode():
                    todo.append((clusters.clock + rng.uniform(0.0, 0.02), name, effect))
                case RoundFailed():
                    todo.append((clusters.clock + effect.wait, name, None))
                case Joined(cluster, admitted):
                    unit = ".".join(cluster)
                    clusters.settle(a_node(f"{unit}/{name}", admitted=admitted))
                case Founded(cluster):
                    clusters.settle(a_node(f"{'.'.join(cluster)}/{name}"))
    assert len(clusters.at) == 41
    units = {node.address.unit for node in clusters.at.values()}
    sizes = [len(clusters.in_cluster(unit)) for unit in units]
    assert max(sizes) <= 8
    # 41 nodes need 6 clusters of 8; some are founded concurrently.
    assert 6 <= len(units) <= 12
    assert all(unit[0] == "x" for unit in units)
    assert clusters.clock < 60


def test_seeds_that_come_before_the_start_are_not_asked() -> None:
    one = joining()
    assert one.set_seeds([A], 0.0) == []
    assert one.state is JoiningState.NOT_STARTED
    assert one.start(0.1) == [AskNode(A)]


def test_a_member_that_is_cut_off_asks_no_seed_of_the_round_before_first() -> None:
    one = joining(A, B)
    one.start(0.0)
    one.join_accepted(accepted("c/m1"), 0.1)
    member, other = (Endpoint(name, 4000) for name in ("m1", "m2"))
    assert one.handle_timeout(0.1 + CUT_OFF_TIMEOUT) == [AskNode(member)]
    asked = [one.dial_failed(NotConnected("down"), 6.0) for _ in range(3)]
    assert asked == [[AskNode(other)], [AskNode(A)], [AskNode(B)]]


def test_a_full_cluster_of_an_earlier_round_founds_none() -> None:
    one = joining(A)
    one.start(0.0)
    one.join_refused(refused(), 0.1)
    wake = one.next_timeout()
    assert wake is not None and one.handle_timeout(wake) == [AskNode(A)]
    (failed,) = one.dial_failed(NotConnected("down"), wake)
    assert isinstance(failed, RoundFailed)


def test_a_founder_that_joins_again_asks_its_gateway_first() -> None:
    one = joining(A)
    for now in (0.0, 100.0):
        assert (one.handle_timeout(now) if now else one.start(now)) == [AskNode(A)]
        no_links = Refused(TooManyLinks("no"), refused(B).alternatives, ("c",), by_peer=True)
        assert one.join_refused(no_links, now) == [AskNode(B)]
        effects = one.join_refused(refused(), now)
    assert effects == [Founded(("x", "c-new"), B)]
    assert one.rejoin(200.0) == [AskNode(B)]
