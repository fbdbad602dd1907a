"""The checker of orders finds each violation in constructed runs, and no other (RCM R49)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import pytest

from broker.testing.order.checker import check
from broker.testing.order.run import Delivery, Missing, Run, Sent, Status
from broker.testing.order.timers import Timers
from broker.testing.order.violation import Property
from broker.transport.order import MessageId, OrderSettings, Place, Stamp
from broker.transport.view import LinkState

SITES = "a", "b", "c"


class Built:
    """Three sites, connected from 1 s on. a and b send a message each, which all deliver."""

    def __init__(self, variant: str = "logical") -> None:
        self.run = Run(variant, SITES, OrderSettings(), Timers(), delay=0.1, skew=0.0, end=40.0)
        self.run.lives = [(0.0, (site, 1), True) for site in SITES]
        for site, peer in permutations(SITES, 2):
            self.tell(1.0, site, peer, LinkState.CONNECTED)
        self.one = self.send("a", 10.0)
        self.other = self.send("b", 11.0)
        for site in SITES:
            self.deliver(site, self.one, 12.0, 1)
            self.deliver(site, self.other, 12.0, 2)

    def tell(self, time: float, site: str, peer: str, state: LinkState, reason: str = "") -> None:
        position = len(self.run.deliveries[site, 1])
        self.run.statuses.append(Status(time, (site, 1), peer, state, reason, position))

    def send(self, site: str, time: float) -> MessageId:
        number = sum(id.site == site for id in self.run.sent) + 1
        id = MessageId(site, 1, number)
        self.run.sent[id] = Sent(time, frozenset(SITES))
        return id

    def deliver(
        self, site: str, id: MessageId, time: float, stamp: int, late: Place | None = None
    ) -> None:
        self.run.received[site, 1][id] = time
        delivery = Delivery(time, id, Stamp(stamp, id.site), late)
        self.run.deliveries[site, 1].append(delivery)

    def isolate_c(self, begin: float, end: float) -> None:
        """Silence the paths of c, and report it in time."""
        for pair in permutations(SITES, 2):
            if "c" in pair:
                self.run.paths += [(begin, *pair, False), (end, *pair, True)]
                self.tell(begin + 5.0, *pair, LinkState.SUSPECTED, "silent")
                self.tell(end + 3.0, *pair, LinkState.CONNECTED)

    def replace(self, site: str, index: int, **values: object) -> None:
        deliveries = self.run.deliveries[site, 1]
        deliveries[index] = deliveries[index]._replace(**values)  # type: ignore[arg-type]


def properties(built: Built) -> set[Property]:
    return {violation.property for violation in check(built.run)}


def test_a_good_run_has_no_violation() -> None:
    assert check(Built().run) == []


def test_an_outage_that_is_reported_in_time_is_no_violation() -> None:
    built = Built()
    built.isolate_c(20.0, 30.0)
    assert check(built.run) == []


def test_a_late_message_of_an_outage_is_no_violation() -> None:
    built = Built()
    built.isolate_c(20.0, 30.0)
    lost = built.send("c", 21.0)
    new = built.send("a", 26.0)
    for site in "ab":
        built.deliver(site, new, 26.5, 20)
        built.deliver(site, lost, 33.5, 10, Place(built.other, new))
    built.deliver("c", lost, 25.5, 10)
    built.deliver("c", new, 33.5, 20)
    assert check(built.run) == []


def test_a_message_that_waits_while_its_site_is_disconnected_is_no_violation() -> None:
    """The group marks it as recovered (R26)."""
    built = Built()
    built.isolate_c(20.0, 30.0)
    waiting = built.send("a", 19.0)
    built.deliver("a", waiting, 19.5, 20)
    built.deliver("b", waiting, 19.5, 20)
    built.tell(90.0, "c", "a", LinkState.DISCONNECTED)
    received = built.run.received["c", 1]
    built.deliver("c", waiting, 91.0, 20)

    def text_of() -> str:
        return " ".join(each.text for each in check(built.run))

    received[waiting] = 19.2
    assert "of a disconnected site" not in text_of()
    received[waiting] = 90.5
    assert "of a disconnected site" in text_of()


def test_sites_that_see_each_other_know_the_same_sites() -> None:
    built = Built()
    built.run.members = {site: frozenset(SITES) for site in SITES}
    assert check(built.run) == []
    built.run.members["b"] = frozenset("ab")
    assert properties(built) == {Property.SITES}
    # Apart from each other they may know others.
    for pair in permutations(SITES, 2):
        if "b" in pair:
            built.tell(39.5, *pair, LinkState.SUSPECTED)
    assert Property.SITES not in properties(built)


def test_a_site_that_joins_is_expected_from_then_on() -> None:
    built = Built()
    built.run.statuses = [each for each in built.run.statuses if "d" != each.peer]
    built.run.sites, built.run.newcomers = (*SITES, "d"), ("d",)
    assert check(built.run) == []
    built.run.lives.append((20.0, ("d", 1), True))
    for site in SITES:
        built.run.joins["d", site] = built.run.joins[site, "d"] = 20.0
    found = check(built.run)
    assert {each.property for each in found} == {Property.AWARENESS}
    for site in SITES:
        built.tell(21.0, site, "d", LinkState.CONNECTED)
        built.tell(21.0, "d", site, LinkState.CONNECTED)
    assert check(built.run) == []


def lose_a_message(built: Built) -> None:
    del built.run.deliveries["c", 1][1]
    del built.run.received["c", 1][built.other]


def repeat_a_message(built: Built) -> None:
    built.deliver("c", built.other, 13.0, 3)


def invent_a_message(built: Built) -> None:
    built.deliver("c", MessageId("b", 1, 2), 13.0, 3)


def report_a_delivered_message_as_missing(built: Built) -> None:
    built.run.missing.append(Missing(20.0, ("c", 1), ("b", 1), 1, 1))


def lose_a_message_in_silence_after_a_disconnection(built: Built) -> None:
    lose_a_message(built)
    built.tell(13.0, "c", "b", LinkState.SUSPECTED)
    built.tell(73.0, "c", "b", LinkState.DISCONNECTED)
    built.run.end = 80.0


def swap_the_messages_of_a_sender(built: Built) -> None:
    second = built.send("a", 13.0)
    for site in SITES:
        built.deliver(site, second, 14.0, 5)
    deliveries = built.run.deliveries["c", 1]
    deliveries[0], deliveries[2] = deliveries[2], deliveries[0]


def swap_two_messages(built: Built) -> None:
    built.replace("c", 0, id=built.other)
    built.replace("c", 1, id=built.one)


def deliver_late_among_connected_sites(built: Built) -> None:
    deliveries = built.run.deliveries["c", 1]
    deliveries.reverse()
    built.replace("c", 1, late=Place(None, built.other))


def mark_nothing_late(built: Built) -> None:
    built.run.deliveries["c", 1].reverse()


def mark_a_message_in_time_as_late(built: Built) -> None:
    built.replace("c", 1, late=Place(built.one, None))


def give_one_stamp_twice(built: Built) -> None:
    built.replace("c", 1, stamp=Stamp(1, "a"))


def hold_a_message(built: Built) -> None:
    built.replace("c", 1, time=22.0)


def keep_silent_about_an_outage(built: Built) -> None:
    built.run.paths.append((20.0, "a", "c", False))


def suspect_a_good_link(built: Built) -> None:
    built.tell(20.0, "c", "a", LinkState.SUSPECTED)


def disconnect_too_early(built: Built) -> None:
    built.isolate_c(20.0, 30.0)
    built.tell(26.0, "c", "a", LinkState.DISCONNECTED)


def deliver_a_message_of_a_disconnected_site(built: Built) -> None:
    built.replace("c", 0, time=0.5)


def refuse_a_packet(built: Built) -> None:
    built.run.failures.append((20.0, ("c", 1), "wrong"))


@pytest.mark.parametrize(
    ("change", "property"),
    [
        (lose_a_message, Property.RELIABILITY),
        (repeat_a_message, Property.RELIABILITY),
        (invent_a_message, Property.RELIABILITY),
        (report_a_delivered_message_as_missing, Property.RELIABILITY),
        (lose_a_message_in_silence_after_a_disconnection, Property.RELIABILITY),
        (swap_the_messages_of_a_sender, Property.FIFO),
        (swap_two_messages, Property.GLOBAL_ORDER),
        (deliver_late_among_connected_sites, Property.GLOBAL_ORDER),
        (mark_nothing_late, Property.GLOBAL_ORDER),
        (mark_a_message_in_time_as_late, Property.GLOBAL_ORDER),
        (give_one_stamp_twice, Property.GLOBAL_ORDER),
        (hold_a_message, Property.ROBUSTNESS),
        (refuse_a_packet, Property.ROBUSTNESS),
        (keep_silent_about_an_outage, Property.AWARENESS),
        (suspect_a_good_link, Property.AWARENESS),
        (disconnect_too_early, Property.AWARENESS),
        (deliver_a_message_of_a_disconnected_site, Property.AWARENESS),
    ],
)
def test_a_violation_is_found(change: Callable[[Built], None], property: Property) -> None:
    built = Built()
    change(built)
    assert property in properties(built)


@pytest.mark.parametrize(("variant", "is_judged"), [("logical", True), ("sequencer", False)])
def test_the_sequencer_is_judged_only_where_statuses_are_transitive(
    variant: str, is_judged: bool
) -> None:
    built = Built(variant)
    # a and b see each other and c, and b and c do not: the pair a, b is connected.
    for site, peer in (("b", "c"), ("c", "b")):
        built.run.paths += [(2.0, site, peer, False)]
        built.tell(7.0, site, peer, LinkState.SUSPECTED)
    swapped = built.run.deliveries["b", 1]
    swapped.reverse()
    built.replace("b", 0, stamp=Stamp(1, "b"))
    built.replace("b", 1, stamp=Stamp(2, "a"))
    assert (Property.GLOBAL_ORDER in properties(built)) is is_judged


@pytest.mark.parametrize(
    ("variant", "commit", "is_justified"),
    [("real-time", 1.0, True), ("real-time", 0.03, False), ("logical", 1.0, False)],
)
def test_a_long_commit_justifies_a_late_message_in_real_time(
    variant: str, commit: float, is_justified: bool
) -> None:
    built = Built(variant)
    new, slow = built.send("b", 20.5), built.send("a", 21.0)
    built.run.sent[slow] = built.run.sent[slow]._replace(commit=commit)
    built.deliver("c", new, 20.8, 30)
    built.tell(21.0, "c", "a", LinkState.SUSPECTED, "late")
    built.deliver("c", slow, 21.0, 20, Place(built.other, new))
    built.tell(27.0, "c", "a", LinkState.CONNECTED)
    for site in "ab":
        built.deliver(site, slow, 21.0, 20)
        built.deliver(site, new, 21.0, 30)
    assert (check(built.run) == []) is is_justified


@pytest.mark.parametrize("is_justified", [True, False])
def test_a_suspicion_is_judged_by_the_message_that_follows_it(is_justified: bool) -> None:
    """Of two late messages of one read, one was sent while the path was silent."""
    built = Built()
    for is_up, time in ((False, 20.0), (True, 20.4)):
        built.run.paths.append((time, "a", "c", is_up))
    delayed, new, good = built.send("a", 20.1), built.send("b", 20.2), built.send("a", 20.5)
    built.deliver("c", new, 20.3, 30)
    if is_justified:
        built.tell(20.6, "c", "a", LinkState.SUSPECTED, "late")
    built.deliver("c", delayed, 20.6, 20, Place(built.other, new))
    if not is_justified:
        built.tell(20.6, "c", "a", LinkState.SUSPECTED, "late")
    built.deliver("c", good, 20.6, 21, Place(delayed, new))
    built.tell(26.0, "c", "a", LinkState.CONNECTED)
    texts = [each.text for each in check(built.run)]
    assert ("c suspects a as late, and the path was good" not in texts) is is_justified


def test_a_message_may_wait_for_a_commit_of_its_receiver() -> None:
    built = Built()
    hold_a_message(built)
    built.run.commits["c", 1] = [(11.5, 22.0)]
    assert Property.ROBUSTNESS not in {
        each.property for each in check(built.run) if "waited" in each.text
    }
    built.run.commits["c", 1] = [(20.0, 22.0)]
    assert any("waited" in each.text for each in check(built.run))


def test_a_long_commit_delays_the_connection_until_it_ends() -> None:
    built = Built()
    for pair in (("a", "c"), ("c", "a")):
        built.run.paths += [(20.0, *pair, False), (21.0, *pair, True)]
        built.tell(20.0, *pair, LinkState.SUSPECTED, "connection lost")
        built.tell(25.5, *pair, LinkState.CONNECTED)
    assert Property.AWARENESS in properties(built)
    built.run.commits["a", 1] = [(23.0, 25.3)]
    assert check(built.run) == []
