"""Runs: messages whose numbers and stamps follow each other by one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from random import Random

import pytest

from broker.errors import ProtocolError
from broker.transport.order import MessageId, Place, Stamp
from broker.transport.order.history import History
from broker.transport.order.packet import Message
from broker.transport.order.wire import MAX_MESSAGES, PacketCodec
from tests.seeds import seeds
from tests.transport.order.group import Group

RUNS = pytest.mark.parametrize("variant", ["logical", "real-time", "hybrid"])


def lengths(group: Group, site: str) -> list[tuple[str, int, bool]]:
    """Return sender, length and lateness of what a site has delivered."""
    found = group.delivered[site]
    return [(each.message.id.site, each.message.length, each.late is not None) for each in found]


def deliveries(group: Group, site: str) -> Iterator[tuple[MessageId, Stamp, Place | None]]:
    """Yield each delivered message alone."""
    for each in group.delivered[site]:
        for index in range(each.message.length):
            yield each.message.id.after(index), each.stamp.after(index), each.late


def publish(group: Group, site: str, count: int) -> None:
    group.stamp(site, count)
    group.release(site, "run", count=count)


@RUNS
def test_a_run_is_delivered_whole_if_nothing_stands_between(variant: str) -> None:
    group = Group(variant, "ab")
    publish(group, "a", 5)
    group.settle()
    group.advance(2.0)
    assert lengths(group, "a") == lengths(group, "b") == [("a", 5, False)]
    assert [id.number for id, *_ in deliveries(group, "b")] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("count", [1, 3])
@RUNS
def test_a_run_may_have_messages_that_were_stamped_apart(variant: str, count: int) -> None:
    group = Group(variant, "ab")
    stamps = [each.stamp for _ in range(3) for each in group.stamp("a", count)]
    assert [one.after(1) for one in stamps[:-1] if one] == stamps[1:]
    group.release("a", "run", count=2 * count)
    group.release("a", "run", count=count)
    group.settle()
    group.advance(2.0)
    assert lengths(group, "b") == [("a", 2 * count, False), ("a", count, False)]


@RUNS
def test_a_run_is_cut_where_another_message_stands_between(variant: str) -> None:
    group = Group(variant, "ab")
    publish(group, "a", 5)
    publish(group, "b", 3)
    group.settle()
    group.advance(2.0)
    assert lengths(group, "a") == lengths(group, "b")
    # Both runs begin with the same time, and the name of the site breaks ties.
    assert lengths(group, "a")[:4] == [("a", 1, False), ("b", 1, False)] * 2
    assert [*deliveries(group, "a")] == [*deliveries(group, "b")]


@RUNS
def test_only_the_late_begin_of_a_run_is_late(variant: str) -> None:
    group = Group(variant, "ab")
    group.isolate("a")
    (first, *_) = group.stamp("a", 5)
    group.release("a", "run", count=5)
    assert first.stamp is not None
    # What site b delivers alone is behind the second message of the run.
    group.cores["b"].place(MessageId("c", 1, 1), Stamp(first.stamp.time + 1, "b"))
    group.settle()
    group.advance(2.0)
    late = Place(MessageId("a", 1, 1), MessageId("c", 1, 1))
    assert [place for *_, place in deliveries(group, "b")][:3] == [
        Place(None, MessageId("c", 1, 1)),
        late,
        None,
    ]
    assert lengths(group, "b") == [("a", 1, True), ("a", 1, True), ("a", 3, False)]


def test_real_time_delivers_the_part_of_a_run_that_is_due() -> None:
    group = Group("real-time", "ab")
    publish(group, "a", 1_000)
    group.settle()
    group.advance(0.2504)
    # Its last message is not due, but another one wakes the site.
    publish(group, "b", 1)
    assert 0 < lengths(group, "b")[0][1] < 1_000
    group.advance(0.5)
    assert sum(length for _, length, _ in lengths(group, "b")) == 1_001
    assert not any(is_late for *_, is_late in lengths(group, "b"))


@RUNS
def test_a_reserved_stamp_cuts_a_run_of_another_site(variant: str) -> None:
    group = Group(variant, "ab")
    publish(group, "b", 9)
    (reserved,) = group.stamp("a")
    group.settle()
    group.advance(2.0)
    assert reserved.stamp is not None
    below = group.cores["b"].stamp(1, group.at).stamp
    assert below is not None
    delivered = sum(length for _, length, _ in lengths(group, "a"))
    assert delivered < 9
    group.release("a", "own")
    group.settle()
    group.advance(2.0)
    stamps = [stamp for _, stamp, _ in deliveries(group, "a")]
    assert stamps == sorted(stamps) and len(stamps) == 10


@RUNS
def test_the_known_part_of_a_run_is_a_duplicate(variant: str) -> None:
    group = Group(variant, "ab")
    (run,) = [Message(MessageId("a", 1, 1), b"x", frozenset("b"), Stamp(10**9, "a"), 6)]
    begin, _ = run.cut(4)
    group.receive("b", "a", begin)
    group.receive("b", "a", run)
    group.receive("b", "a", run)
    assert group.cores["b"].duplicates == 4 + 6
    assert not group.failures
    group.isolate("a")
    group.advance(1.0)
    assert [id.number for id, *_ in deliveries(group, "b")] == [1, 2, 3, 4, 5, 6]


class ReadingGroup(Group):
    """Its sites read all packets of a link at once."""

    def move(self, sender: str, receiver: str) -> None:
        packets, self.transit[sender, receiver] = self.transit[sender, receiver], deque()
        if packets:
            self.receive(receiver, sender, *packets)


@pytest.mark.parametrize("seed", seeds(40, 1_000))
def test_runs_are_delivered_as_their_messages_alone_would_be(seed: int) -> None:
    """Also late ones, with their neighbours, through outages."""
    random = Random(seed)
    runs, alone = ReadingGroup("logical"), ReadingGroup("logical")
    for _ in range(60):
        site, other = random.sample("abc", 2)
        count = random.choice((1, 1, 2, 7))
        match random.randrange(8):
            case 0 | 1 | 2 | 3:
                publish(runs, site, count)
                alone.send(site, *["run"] * count)
            case 4 | 5:
                for group in (runs, alone):
                    group.move(site, other)
            case 6:
                seconds = random.choice((0.01, 0.1, 0.4))
                for group in (runs, alone):
                    group.advance(seconds)
            case _:
                is_cut = random.random() < 0.5
                for group in (runs, alone):
                    if is_cut:
                        group.disconnect(site, other)
                    elif other not in group.cores[site].connected:
                        group.connect(site, other)
    for group in (runs, alone):
        group.settle()
        # A run waits for the clocks beyond its last message: others are overdue sooner.
        for site in "abc":
            group.isolate(site)
    for site in "abc":
        assert [*deliveries(runs, site)] == [*deliveries(alone, site)]
        assert len([*deliveries(runs, site)]) > 20
    assert [s for s, _ in runs.suspected] == [s for s, _ in alone.suspected]


@pytest.mark.parametrize("seed", seeds(20, 400))
def test_a_history_of_runs_is_that_of_its_messages(seed: int) -> None:
    random = Random(seed)
    history, alone = History(1_000), History(1_000)
    kept: list[tuple[Stamp, MessageId]] = []
    for _ in range(100):
        stamp = Stamp(random.randrange(300), random.choice("abc"))
        id = MessageId(stamp.site, 1, stamp.time + 1)
        if any(each == stamp for each, _ in kept):
            continue
        count = random.choice((1, 4)) - history.count_late(stamp, id.number, 4)
        if history.is_late(stamp, id.number):
            count = 1
        assert history.is_late(stamp, id.number) == alone.is_late(stamp, id.number)
        place = history.add(stamp, id, max(count, 1))
        for index in range(max(count, 1)):
            kept.append((stamp.after(index), id.after(index)))
            assert alone.add(*kept[-1]) == place
        if random.random() < 0.3:
            gone = kept.pop(random.randrange(len(kept)))
            assert history.remove(*gone) and alone.remove(*gone)
            assert not history.remove(*gone)
        assert history.highest == alone.highest


def packet_of(*runs: tuple[int, int, int]) -> Sequence[Message]:
    """Return runs by number, time and length."""
    return [
        Message(MessageId("a", 1, number), b"x", frozenset("b"), Stamp(time, "a"), length)
        for number, time, length in runs
    ]


def test_a_packet_keeps_its_runs() -> None:
    codec = PacketCodec(["a", "b"])
    packets = packet_of((1, 10, 3), (4, 20, 1), (5, 21, MAX_MESSAGES))
    assert codec.decode("a", codec.encode(packets)) == packets


@pytest.mark.parametrize(
    "run",
    [(2**63 - 2, 10, 3), (1, 2**63 - 2, 3), (1, 10, MAX_MESSAGES + 1), (1, 10, 0)],
)
def test_runs_beyond_the_bounds_are_refused(run: tuple[int, int, int]) -> None:
    codec = PacketCodec(["a", "b"])
    with pytest.raises(ProtocolError):
        codec.decode("a", codec.encode(packet_of(run, (1, 10, 1))))
