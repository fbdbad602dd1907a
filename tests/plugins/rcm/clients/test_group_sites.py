"""Clients of whole sites, without nodes, in virtual time: order, outages and restarts."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.errors import Closed
from broker.event.site_notice import MissingMessages, SiteStatus
from broker.streams.link_sockets import LinkSockets
from broker.streams.messaging import ClientAddress, Delivery, Item
from broker.transport.message import Message, Outcome
from plugins.rcm.group_site import create_context
from plugins.rcm.payload import Channel
from plugins.rcm.transport import RcmTransport
from tests.plugins.rcm.clients.simulated_group import CLIENTS, SimulatedGroup, no_datagrams
from tests.seeds import seeds


@pytest.mark.parametrize("seed", seeds(1, 200))
@pytest.mark.parametrize("order", ["hybrid", "logical", "sequencer"])
def test_messages_keep_the_properties_of_the_order_through_outages_and_a_restart(
    order: str, seed: int, tmp_path: Path
) -> None:
    group = SimulatedGroup(tmp_path, "abcd", order=order, seed=seed)
    random, has_all = group.random, bool(seed % 2)
    group.advance(2.0)
    count = 0
    for _ in range(6):
        one, other = random.sample("abcd", 2)
        if random.random() < 0.25:
            group.restart(one, random.uniform(0.0, 8.0))
        else:
            group.silence(one, other)
        for _ in range(random.randrange(5, 20)):
            process = group.processes[random.choice("abcd")]
            for _ in range(random.choice((1, 1, 2, 3))):
                others = random.sample("abcd", random.randrange(4))
                to = () if has_all else {process.name, *others}
                process.send(random.choice(CLIENTS), b"%d" % count, *to)
                count += 1
            group.advance(random.choice((0.0, 0.01, 0.5, 2.0)))
        group.silence(one, other, is_silent=False)
    group.advance(40.0)
    for name in "abcd":
        # What is missing at the end is told with the next message.
        group.processes[name].send("anna", b"the last of %a" % name)
    group.advance(1.0)
    group.check(has_all=has_all)


def test_a_message_reaches_the_addressed_clients_and_its_source_in_one_order(
    tmp_path: Path,
) -> None:
    group = SimulatedGroup(tmp_path)
    group.advance(2.0)
    a, b, c = group.processes.values()
    message = a.send("anna", b"to ben", ClientAddress("b", "ben"), "c")
    b.send("ben", b"to all")
    group.advance(1.0)
    assert message.source == ("a", "anna")
    assert {site: each.value for site, each in message.outcomes.items()} == {
        "b": "sent",
        "c": "sent",
    }
    texts = {
        (process.name, client): [
            item.message.payload for item in items if isinstance(item, Delivery)
        ]
        for process in (a, b, c)
        for client, items in process.items.items()
    }
    both = texts["b", "ben"]
    assert sorted(both) == [b"to all", b"to ben"]
    assert texts["a", "anna"] == texts["c", "anna"] == texts["c", "ben"] == both
    assert texts["a", "ben"] == texts["b", "anna"] == [b"to all"]


def test_an_outage_is_told_in_sequence_with_late_and_missing_messages(tmp_path: Path) -> None:
    group = SimulatedGroup(tmp_path, order="logical")
    group.advance(2.0)
    a, b, c = group.processes.values()
    for other in "ab":
        group.silence("c", other)
    group.advance(8.0)
    late = c.send("anna", b"late")
    assert set(late.outcomes) == {"c"}  # known at the end of the turn
    a.send("anna", b"in time")
    group.advance(1.0)
    assert {each.value for each in late.outcomes.values()} == {"sent"}
    group.advance(20.0)
    absent = a.send("anna", b"lost for c")
    group.advance(1.0)
    assert {site: each.value for site, each in absent.outcomes.items()} == {
        "a": "sent",
        "b": "sent",
        "c": "absent",
    }
    for other in "ab":
        group.silence("c", other, is_silent=False)
    group.advance(10.0)
    a.send("anna", b"again")
    group.advance(1.0)
    of_c = [
        item
        for item in a.items["ben"]
        if isinstance(item, SiteStatus) and item.site == "c" or isinstance(item, Delivery)
    ]
    assert [
        item.state if isinstance(item, SiteStatus) else item.message.payload for item in of_c
    ] == [
        *("disconnected", "connected", "suspected", b"in time", "disconnected", b"lost for c"),
        *("connected", b"late", b"again"),
    ]
    (found,) = [item for item in of_c if isinstance(item, Delivery) and item.late]
    assert found.message.payload == b"late"
    assert found.source == ("c", "anna")
    (missing,) = [item for item in c.items["ben"] if isinstance(item, MissingMessages)]
    assert (missing.site, missing.first, missing.last) == ("a", 2, 2)
    group.check(has_all=True)


def test_wrong_data_of_a_site_ends_its_link_and_is_counted(tmp_path: Path) -> None:
    group = SimulatedGroup(tmp_path)
    group.advance(2.0)
    a, b, c = group.processes.values()
    b.site._runner.call(b.site._group.send, Channel.CLIENTS, b"\xc1")
    group.advance(1.0)
    for process in (a, c):
        told = [item for item in process.items["anna"] if isinstance(item, SiteStatus)]
        assert (told[-1].site, told[-1].reason) == ("b", "ended: protocol")
        assert process.site.snapshot()["rejected"] == 1
    group.advance(10.0)
    b.send("anna", b"again")
    group.advance(1.0)
    for process in (a, b, c):
        last = process.items["anna"][-1]
        assert isinstance(last, Delivery) and last.message.payload == b"again"


def test_messages_of_clients_wait_for_the_start_of_their_site(tmp_path: Path) -> None:
    group = SimulatedGroup(tmp_path, "a")
    group.advance(1.0)
    process = group.processes["a"]
    process.kill()
    for starts in (False, True):
        sockets = LinkSockets(no_datagrams, process.open_sockets)
        context = create_context("a", group.options, tmp_path / "a", group.clock, sockets=sockets)
        site, items, outcomes = RcmTransport(context), list[Item](), list[object]()
        client = site.open_client("early", items.append)
        client.send(Message(b"early", destinations=("a",))).addCallback(outcomes.append)
        group.advance(1.0)
        assert items == []
        if starts:
            site.listen()
            site.start()
        group.advance(1.0)
        site.stop()
        assert [item.message.payload for item in items if isinstance(item, Delivery)] == (
            [b"early"] if starts else []
        )
        assert outcomes == [{"a": Outcome.SENT if starts else Outcome.ABSENT}]
        with pytest.raises(Closed):
            site.open_client("late")
