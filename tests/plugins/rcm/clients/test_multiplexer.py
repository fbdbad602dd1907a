"""Clients of one site above a layer that the test plays."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from broker.errors import (
    BadName,
    BrokerError,
    Closed,
    NameTaken,
    NotAllowed,
    Overloaded,
    ProtocolError,
    TooLarge,
    UnknownDestination,
)
from broker.event.site_notice import SiteStatus
from broker.streams.messaging import ClientAddress, Delivery, IGroupClient, Item, LostItems
from broker.transport.message import Message, Outcome, Peer
from broker.transport.order import MessageId, Stamp
from plugins.rcm.clients import client as client_module
from plugins.rcm.clients import multiplexer
from plugins.rcm.clients.multiplexer import MOST_CLIENTS, Multiplexer
from plugins.rcm.clients.wire import decode_messages
from plugins.rcm.effects import DeliverMessage
from plugins.rcm.payload import MOST_DATA, Channel

SITES = ("a", "b", "c")


class Below:
    """Site a, and the layer below its clients."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.sent: list[tuple[bytes, Sequence[Message]]] = []
        self.clients = Multiplexer("a", SITES, self._send_down, self.clock)
        self.clients.start()

    def _send_down(self, data: bytes, copies: Sequence[Message]) -> None:
        self.sent.append((data, copies))

    def deliver(self, data: bytes, number: int = 1, site: str = "b") -> None:
        id, stamp = MessageId(site, 1, number), Stamp(number, site)
        self.clients.deliver(DeliverMessage(Channel.CLIENTS, id, stamp, None, data, False))

    def complete(self, **outcomes: Outcome) -> None:
        """Let all copies have these outcomes, those of other sites SENT."""
        for _, copies in self.sent:
            for copy in copies:
                found: dict[Peer, Outcome] = dict.fromkeys(copy.destinations, Outcome.SENT)
                copy.outcomes.update(found | {k: v for k, v in outcomes.items() if k in found})
                self.clients.sent(copy)


def texts(items: Sequence[Item]) -> list[bytes]:
    return [each.message.payload for each in items if isinstance(each, Delivery)]


def read(client: IGroupClient) -> list[Item]:
    """Return the items that wait."""
    found: list[Item] = []

    async def read_all() -> None:
        async for item in client:
            found.append(item)

    Deferred.fromCoroutine(read_all())
    return found


def test_messages_of_one_turn_share_a_place_with_one_copy_for_all_that_get_the_same() -> None:
    below = Below()
    anna, ben = (below.clients.open_client(name) for name in ("anna", "ben"))
    anna.send(Message(b"1", destinations=SITES))
    ben.send(Message(b"2", destinations=("b", ClientAddress("b", "cleo"))))
    below.clock.advance(0)
    ((data, copies),) = below.sent
    assert [copy.destinations for copy in copies] == [("b",), ("c",)]
    assert copies[0].payload == data
    first, second = decode_messages(data)
    assert decode_messages(copies[1].payload) == (first, None)
    # At its own site only the source gets a message that is for others.
    below.deliver(data, site="a")
    assert texts(read(anna)) == [b"1"]
    items = read(ben)
    assert texts(items) == [b"1", b"2"]
    assert [(each.id.number, each.part) for each in items if isinstance(each, Delivery)] == [
        (1, 0),
        (1, 1),
    ]


def test_outcomes_are_those_of_each_destination_site() -> None:
    below = Below()
    anna = below.clients.open_client("anna")
    found: list[object] = []
    message = Message(b"1", destinations=SITES)
    anna.send(message).addCallback(found.append)
    anna.send(Message(b"2", destinations=("c",))).addCallback(found.append)
    anna.send(Message(b"3", destinations=("a",))).addCallback(found.append)
    below.clock.advance(0)
    below.complete(b=Outcome.FULL, c=Outcome.ABSENT)
    sent, full, absent = Outcome.SENT, Outcome.FULL, Outcome.ABSENT
    assert found == [{"a": sent}, {"a": sent, "b": full, "c": absent}, {"c": absent}]
    assert message.outcomes is found[1]
    # A message that waits for a site that leaves, or for the end of the group, has an outcome too.
    below.sent.clear()
    anna.send(Message(b"4", destinations=("b", "c"))).addCallback(found.append)
    below.clock.advance(0)
    below.clients.set_sites(("a", "c"))
    assert anna.sites == ("a", "c")
    assert len(found) == 3
    anna.send(Message(b"5", destinations=("a", "c"))).addCallback(found.append)
    below.clients.close()
    assert found[3:] == [{"a": absent, "c": absent}, {"b": absent, "c": absent}]


def test_messages_that_their_own_site_has_not_delivered_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(multiplexer, "MOST_UNDER_WAY", 2)
    below = Below()
    anna = below.clients.open_client("anna")
    found: list[object] = []
    for site in ("a", "b", "c"):
        anna.send(Message(b"", destinations=(site,))).addCallback(found.append)
    below.clock.advance(0)
    below.complete()
    assert found == [{"c": Outcome.FULL}, {"a": Outcome.SENT}, {"b": Outcome.SENT}]
    below.deliver(below.sent[0][0], site="a")
    anna.send(Message(b"", destinations=("c",)))
    below.clock.advance(0)
    assert len(below.sent) == 2


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (Message(b"", destinations=("d",)), UnknownDestination),
        (Message(b"", destinations=(ClientAddress("d", "x"),)), UnknownDestination),
        (Message(b"", destinations=(7,)), UnknownDestination),
        (Message(b""), UnknownDestination),
        (Message(b"", ClientAddress("b", "anna"), SITES), NotAllowed),
        (Message(b"", ClientAddress("a", "ben"), SITES), NotAllowed),
        (Message(bytes(MOST_DATA), None, SITES), TooLarge),
        (Message(b"", None, (ClientAddress("b", "x"),) * 1_001), TooLarge),
    ],
)
def test_wrong_messages_are_refused(message: Message, error: type[BrokerError]) -> None:
    below = Below()
    anna = below.clients.open_client("anna")
    below.clients.open_client("ben")
    with pytest.raises(error):
        anna.send(message)
    below.clock.advance(0)
    assert below.sent == []


def test_names_of_clients_are_checked_and_bounded() -> None:
    clients = Below().clients
    for wrong in ("", "x" * 65, "a\nb"):
        with pytest.raises(BadName):
            clients.open_client(wrong)
    opened = [clients.open_client(f"{number}") for number in range(MOST_CLIENTS)]
    with pytest.raises(Overloaded):
        clients.open_client("one more")
    with pytest.raises(NameTaken):
        clients.open_client("7")
    opened[7].close()
    clients.open_client("7")
    with pytest.raises(Closed):
        opened[7].send(Message(b"", destinations=SITES))


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x91\x93", b"\x91\x93\xa0\xc0\xc4\x00", b"x" * 9])
def test_malformed_data_of_another_site_is_a_protocol_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        Below().deliver(data)


def test_unknown_clients_among_the_destinations_are_counted() -> None:
    below = Below()
    items: list[Item] = []
    below.clients.open_client("anna", items.append)
    below.deliver(b"\x91\x93\xa1x\x92\x92\xa1a\xa4anna\x92\xa1a\xa3ben\xc4\x02hi")
    assert texts(items) == [b"hi"]
    assert below.clients.snapshot()["unknown_clients"] == 1


def test_a_slow_client_gets_the_count_of_lost_items_and_the_present_statuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_module, "MOST_ITEMS", 4)
    below, other = Below(), list[Item]()
    slow = below.clients.open_client("slow")
    below.clients.open_client("quick", other.append)
    for state in ("connected", "suspected"):
        below.clients.notify(SiteStatus("g", "b", state, "", 1))
    for number in range(5):
        below.deliver(b"\x91\x93\xa1x\xc0\xc4\x01%d" % number, number + 1)
    assert texts(other) == [b"0", b"1", b"2", b"3", b"4"]
    items = read(slow)
    assert texts(items) == [b"0", b"1"]
    below.deliver(b"\x91\x93\xa1x\xc0\xc4\x015", 6)
    assert items[4:6] == [LostItems(3), SiteStatus("g", "b", "suspected", "", 1)]
    assert texts(items) == [b"0", b"1", b"5"]
    assert below.clients.snapshot()["lost_items"] == 3
    slow.close()


def test_a_callback_that_raises_closes_its_client_only() -> None:
    below, other = Below(), list[Item]()

    def fail(item: Item) -> None:
        raise RuntimeError("of the test")

    failing = below.clients.open_client("failing", fail)
    below.clients.open_client("closing", lambda item: closed.close())
    closed = below.clients.open_client("closed", fail)
    below.clients.open_client("other", other.append)
    with capturedLogs() as logged:
        below.deliver(b"\x91\x93\xa1x\xc0\xc4\x02hi")
    assert texts(other) == [b"hi"]
    assert len(logged) == 1
    with pytest.raises(Closed):
        failing.send(Message(b"", destinations=SITES))


def test_an_iterator_gets_the_present_statuses_first_and_ends_after_its_queue() -> None:
    below = Below()
    status = SiteStatus("g", "b", "connected", "", 1)
    below.clients.notify(status)
    client = below.clients.open_client("anna")
    below.deliver(b"\x91\x93\xa1x\xc0\xc4\x02hi")
    client.close()
    below.deliver(b"\x91\x93\xa1x\xc0\xc4\x02no", 2)
    ended: list[object] = []

    async def read_all() -> list[Item]:
        return [item async for item in client]

    Deferred.fromCoroutine(read_all()).addCallback(ended.append)
    (items,) = ended
    assert isinstance(items, list)
    assert items[0] == status
    assert texts(items) == [b"hi"]
    with pytest.raises(Closed):
        aiter(below.clients.open_client("callback", lambda item: None))
