"""The clients of one site above the order: one copy of a message for all of them (RCM R3, R7)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs
import msgspec
from twisted.internet.defer import Deferred, succeed

from broker.errors import (
    BadName,
    Closed,
    NameTaken,
    NotAllowed,
    NotInGroup,
    Overloaded,
    UnknownDestination,
)
from broker.event.site_notice import SiteNotice, SiteStatus
from broker.streams.messaging import ClientAddress, Delivery, Item, Receive
from broker.transport.clock import IClock
from broker.transport.message import Message, Outcome, Peer
from plugins.rcm.clients.client import GroupClient
from plugins.rcm.clients.wire import (
    MOST_MESSAGES,
    MOST_NAME,
    decode_messages,
    encode_message,
    encode_messages,
)
from plugins.rcm.effects import DeliverMessage

#: At one site (R3).
MOST_CLIENTS = 100
#: Messages of a site, and their bytes, that it has not delivered itself; more are FULL.
MOST_UNDER_WAY = 10_000
MOST_BYTES_UNDER_WAY = 16 << 20
#: Bytes of messages with one place, unless one is larger.
MOST_PLACE_BYTES = 64 << 10


@attrs.define(eq=False)
class _Outgoing:
    size: int
    sites: Sequence[str]
    encoded: msgspec.Raw
    outcomes: dict[Peer, Outcome] = attrs.field(factory=dict)
    sent: Deferred[Mapping[Peer, Outcome]] = attrs.field(factory=Deferred)


class Multiplexer:
    """Messages that clients send in one turn of the reactor have one place in the order.

    The layer below gets a copy for all sites that get the same of them, and calls `sent` with the
    outcomes.
    """

    def __init__(
        self,
        site: str,
        sites: tuple[str, ...],
        send_down: Callable[[bytes, Sequence[Message]], object],
        clock: IClock,
    ) -> None:
        """`sites` are all sites of the group, this one included. `send_down` gets data for this
        site, and its copies for others."""
        self.sites = sites
        self.statuses: dict[str, SiteStatus] = {}
        """Present statuses of other sites."""
        self.lost = 0
        """Items that slow clients have lost."""
        self.unknown = 0
        """Destinations of received messages that are no clients here."""
        self._site = site
        self._send_down = send_down
        self._clock = clock
        self._clients: dict[str, GroupClient] = {}
        self._all: tuple[GroupClient, ...] = ()
        self._outbox: list[_Outgoing] = []
        self._copies: dict[Message, Sequence[_Outgoing]] = {}
        """Messages in each copy whose outcomes are not known."""
        self._places: deque[tuple[int, int]] = deque()
        """Messages, and their bytes, in each own place that is not delivered."""
        self._under_way = self._bytes_under_way = 0
        self._is_started = self._is_closed = False
        self._refusal = ""

    def start(self) -> None:
        """Send what clients have sent, and what they send from now on."""
        self._is_started = True
        self._flush()

    def set_sites(self, sites: Iterable[str], refusal: str = "") -> None:
        """Set the sites of the group, for messages from now on. They are refused with a reason, if
        there is one."""
        self.sites = tuple(sorted(sites))
        self._refusal = refusal
        self.statuses = {site: each for site, each in self.statuses.items() if site in self.sites}
        for copy in list(self._copies):
            left = [site for site in copy.destinations if site not in self.sites]
            copy.outcomes.update(dict.fromkeys(left, Outcome.ABSENT))
            self.sent(copy)

    # ----------------------------------------------------------------- clients

    def open_client(self, name: str, receive: Receive | None = None) -> GroupClient:
        """See `IMessagingTransport.open_client`."""
        if self._is_closed:
            raise Closed("the group is closed")
        if not (0 < len(name) <= MOST_NAME and name.isprintable()):
            raise BadName(f"a client's name has 1 to {MOST_NAME} printable characters")
        if name in self._clients:
            raise NameTaken(f"there is a client {name} at {self._site}")
        if len(self._clients) >= MOST_CLIENTS:
            raise Overloaded(f"there are {MOST_CLIENTS} clients at {self._site}")
        client = self._clients[name] = GroupClient(self, ClientAddress(self._site, name), receive)
        self._all = tuple(self._clients.values())
        for status in self.statuses.values():
            client.put(status)
        return client

    def remove(self, client: GroupClient) -> None:
        self._clients.pop(client.address.client, None)
        self._all = tuple(self._clients.values())

    def close(self) -> None:
        """Close all clients. Unsent messages are lost: nobody gets them."""
        self._is_closed = True
        for client in self._all:
            client.close()
        for outgoing in self._outbox:
            outgoing.outcomes.update(dict.fromkeys(outgoing.sites, Outcome.ABSENT))
            self._report_sent(outgoing)
        self._outbox.clear()
        for copy in list(self._copies):
            copy.outcomes.update(dict.fromkeys(copy.destinations, Outcome.ABSENT))
            self.sent(copy)

    # ----------------------------------------------------------------- messages of clients

    def send(self, client: GroupClient, message: Message) -> Deferred[Mapping[Peer, Outcome]]:
        """See `IGroupClient.send`."""
        if message.source is not None and message.source != client.address:
            raise NotAllowed(f"{client.address} can not send as {message.source}")
        if self._refusal:
            raise NotInGroup(self._refusal)
        sites, destinations = self._resolve(message.destinations)
        encoded = encode_message(client.address.client, destinations, message.payload)
        message.source = client.address
        outgoing = _Outgoing(len(message.payload), sites, encoded)
        message.outcomes = outgoing.outcomes
        if self._under_way >= MOST_UNDER_WAY or self._bytes_under_way >= MOST_BYTES_UNDER_WAY:
            message.outcomes.update(dict.fromkeys(sites, Outcome.FULL))
            return succeed(message.outcomes)
        if not self._outbox:
            self._clock.callLater(0, self._flush)
        if self._site in sites:
            message.outcomes[self._site] = Outcome.SENT
        self._outbox.append(outgoing)
        self._under_way += 1
        self._bytes_under_way += outgoing.size
        return outgoing.sent

    def _resolve(
        self, destinations: Sequence[Peer]
    ) -> tuple[Sequence[str], Sequence[ClientAddress] | None]:
        """Return the sites among destinations, and these as addresses; None: all sites.

        Raises `UnknownDestination`.
        """
        sites = self.sites
        if destinations == sites:
            return sites, None
        found: list[ClientAddress] = []
        for each in destinations:
            address = each if isinstance(each, ClientAddress) else ClientAddress(str(each), "")
            if address.site not in sites:
                raise UnknownDestination(f"{each} is no site of the group: {', '.join(sites)}")
            found.append(address)
        if not found:
            raise UnknownDestination("a message without destinations")
        return list(dict.fromkeys(each.site for each in found)), found

    def _flush(self) -> None:
        """Send what clients have sent in this turn, with one place if it is not much."""
        if not self._is_started:
            return
        part: list[_Outgoing] = []
        size = 0
        outbox, self._outbox = self._outbox, []
        for outgoing in outbox:
            size += outgoing.size
            if part and (len(part) == MOST_MESSAGES or size > MOST_PLACE_BYTES):
                self._send_part(part)
                part, size = [], outgoing.size
            part.append(outgoing)
        if part:
            self._send_part(part)

    def _send_part(self, part: Sequence[_Outgoing]) -> None:
        alike: dict[tuple[bool, ...], list[str]] = {}
        for site in self.sites:
            if site != self._site:
                alike.setdefault(tuple(site in each.sites for each in part), []).append(site)
        data = encode_messages([each.encoded for each in part])
        copies = []
        for wanted, group in alike.items():
            if any(wanted):
                found = [
                    each.encoded if is_wanted else None
                    for each, is_wanted in zip(part, wanted, strict=True)
                ]
                payload = data if all(wanted) else encode_messages(found)
                copy = Message(payload, None, tuple(group))
                copies.append(copy)
                self._copies[copy] = part
        for each in part:
            self._report_sent(each)
        self._places.append((len(part), sum(each.size for each in part)))
        self._send_down(data, copies)

    def has_copy(self, copy: Message) -> bool:
        """Return whether a copy is of messages of clients, and has no outcomes yet."""
        return copy in self._copies

    def sent(self, copy: Message) -> None:
        """Handle new outcomes of a copy."""
        part = self._copies.get(copy)
        if part is None or len(copy.outcomes) < len(copy.destinations):
            return
        del self._copies[copy]
        for outgoing in part:
            for site, outcome in copy.outcomes.items():
                if site in outgoing.sites:
                    outgoing.outcomes[site] = outcome
            self._report_sent(outgoing)

    def _report_sent(self, outgoing: _Outgoing) -> None:
        outcomes, sent = outgoing.outcomes, outgoing.sent
        if len(outcomes) == len(outgoing.sites) and not sent.called:
            sent.callback(outcomes)

    # ----------------------------------------------------------------- from the order

    def deliver(self, delivered: DeliverMessage) -> None:
        """Pass messages on to their clients here. Raises `ProtocolError` for malformed data."""
        _, id, stamp, late, data, is_recovered = delivered
        if id.site == self._site and self._places:
            count, size = self._places.popleft()
            self._under_way -= count
            self._bytes_under_way -= size
        for number, content in enumerate(decode_messages(data)):
            if content is None:
                continue
            source, payload = ClientAddress(id.site, content.source), content.payload
            destinations: tuple[Peer, ...] = self.sites
            clients: Sequence[GroupClient] = self._all
            if content.destinations is not None:
                destinations = tuple(
                    ClientAddress(site, name) if name else site
                    for site, name in content.destinations
                )
                clients = self._find_clients(source, content.destinations)
            message = Message(payload, source, destinations)
            delivery = Delivery(message, id, number, stamp, late, is_recovered)
            self._put(delivery, clients, len(payload))

    def _find_clients(
        self, source: ClientAddress, destinations: Sequence[tuple[str, str]]
    ) -> Sequence[GroupClient]:
        clients = self._clients
        names: dict[str, None] = {}
        for site, name in destinations:
            if site == self._site and not name:
                return self._all
            if site == self._site:
                self.unknown += name not in clients
                names[name] = None
        if source.site == self._site:
            names[source.client] = None
        return [clients[name] for name in names if name in clients]

    def notify(self, notice: SiteNotice) -> None:
        """Tell all clients a status, or missing messages."""
        if isinstance(notice, SiteStatus):
            self.statuses[notice.site] = notice
        self._put(notice, self._all, 0)

    def _put(self, item: Item, clients: Sequence[GroupClient], size: int) -> None:
        for client in clients:
            if not client.put(item, size):
                self.lost += 1

    def snapshot(self) -> dict[str, object]:
        return {
            "clients": len(self._clients),
            "lost_items": self.lost,
            "unknown_clients": self.unknown,
        }
