"""The clients of one site above the order: one copy of a message for all of them (RCM R3, R7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from twisted.internet.defer import Deferred, succeed

from broker.errors import (
    BadName,
    Closed,
    NameTaken,
    NotAllowed,
    Overloaded,
    UnknownDestination,
)
from broker.event.site_notice import SiteNotice, SiteStatus
from broker.streams.messaging import ClientAddress, Delivery, Item, Receive
from broker.transport.clock import IClock
from broker.transport.message import Message, Outcome, Peer
from plugins.rcm.clients.client import GroupClient
from plugins.rcm.clients.wire import MOST_NAME, decode_message, encode_message
from plugins.rcm.effects import DeliverMessage

#: At one site (R3).
MOST_CLIENTS = 100
#: Messages, and their bytes, that wait to be sent, behind a commit of events.
MOST_UNSENT = 10_000
MOST_UNSENT_BYTES = 16 << 20


class Multiplexer:
    """Messages that clients send in one turn of the reactor go down together.

    Each has the other sites among its destinations as those of a message of the layer below, which
    calls `sent` with the outcomes.
    """

    def __init__(
        self,
        site: str,
        sites: tuple[str, ...],
        send_down: Callable[[Sequence[Message]], object],
        clock: IClock,
    ) -> None:
        """`sites` are all sites of the group, this one included."""
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
        self._outbox: list[Message] = []
        self._unsent: dict[Message, tuple[Message, Deferred[Mapping[Peer, Outcome]]]] = {}
        """Messages of clients by those of the layer below."""
        self._unsent_bytes = 0
        self._is_closed = False

    def set_sites(self, sites: Iterable[str]) -> None:
        """Set all sites of the group. Sites that have left get no more messages."""
        self.sites = tuple(sorted(sites))
        for gone in self.statuses.keys() - {*self.sites}:
            del self.statuses[gone]
        for outgoing in list(self._unsent):
            left = {*outgoing.destinations} - {*self.sites}
            self.sent([outgoing], dict.fromkeys(left, Outcome.ABSENT))

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
        self._outbox.clear()
        for outgoing in list(self._unsent):
            self.sent([outgoing], dict.fromkeys(outgoing.destinations, Outcome.ABSENT))

    # ----------------------------------------------------------------- messages of clients

    def send(self, client: GroupClient, message: Message) -> Deferred[Mapping[Peer, Outcome]]:
        """See `IGroupClient.send`."""
        if message.source is not None and message.source != client.address:
            raise NotAllowed(f"{client.address} can not send as {message.source}")
        sites, destinations = self._resolve(message.destinations)
        data = encode_message(client.address.client, destinations, message.payload)
        message.source = client.address
        if len(self._unsent) >= MOST_UNSENT or self._unsent_bytes >= MOST_UNSENT_BYTES:
            message.outcomes.update(dict.fromkeys(sites, Outcome.FULL))
            return succeed(message.outcomes)
        if not self._outbox:
            self._clock.callLater(0, self._flush)
        others = tuple(site for site in sites if site != self._site)
        if len(others) < len(sites):
            message.outcomes[self._site] = Outcome.SENT
        outgoing = Message(data, destinations=others)
        self._outbox.append(outgoing)
        sent: Deferred[Mapping[Peer, Outcome]] = Deferred()
        self._unsent[outgoing] = message, sent
        self._unsent_bytes += len(data)
        return sent

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
        outbox, self._outbox = self._outbox, []
        if outbox:
            self._send_down(outbox)

    def sent(self, messages: Sequence[Message], outcomes: Mapping[Peer, Outcome]) -> None:
        """Handle the outcomes at some sites of messages that the layer below has sent."""
        for outgoing in messages:
            waiting = self._unsent.get(outgoing)
            if waiting is None:
                continue
            message, sent = waiting
            found = outgoing.outcomes
            for site in outgoing.destinations:
                if site in outcomes:
                    found[site] = message.outcomes[site] = outcomes[site]
            if len(found) == len(outgoing.destinations):
                del self._unsent[outgoing]
                self._unsent_bytes -= len(outgoing.payload)
                sent.callback(message.outcomes)

    # ----------------------------------------------------------------- from the order

    def deliver(self, delivered: DeliverMessage) -> None:
        """Pass a message on to its clients here. Raises `ProtocolError` for malformed data."""
        content = decode_message(delivered.data)
        id = delivered.id
        source, payload = ClientAddress(id.site, content.source), content.payload
        destinations: tuple[Peer, ...] = self.sites
        clients: Sequence[GroupClient] = self._all
        if content.destinations is not None:
            destinations = tuple(
                ClientAddress(site, name) if name else site for site, name in content.destinations
            )
            clients = self._find_clients(source, content.destinations)
        message = Message(payload, source, destinations)
        delivery = Delivery(message, id, delivered.stamp, delivered.late, delivered.is_recovered)
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
