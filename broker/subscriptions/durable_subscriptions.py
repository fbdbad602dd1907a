"""Durable subscriptions: their state between sessions (Q2, M42)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import attrs
import msgpack

from broker.config import Settings
from broker.delivery.lag import LagSnapshot
from broker.event.place import Mark, Position
from broker.identity import Identity
from broker.log.event_log import EventLog
from broker.matching.query.limits import NO_LIMITS
from broker.matching.query.namespaces import DEFAULT
from broker.matching.query.query import Query, parse_query
from broker.subscriptions.client_owner import NO_OWNER, OWNER_NAME, AccountName, ClientOwner


@attrs.frozen
class DurableSubscription:
    """A stored query and its position."""

    pattern: str
    query: str
    namespaces: Mapping[str, str]
    position: Position
    used_ms: int
    """Ms since 1970 of the last subscription, acknowledgement or release."""
    active_from: Position | None = None
    """Behind these marks the node's log has all matching events; None: not active yet."""
    previous_address: str = ""
    """The previous node keeps the subscription until its client has processed all events before
    `active_from`."""
    moved_to: str = ""
    """The node that took it over."""
    is_paused: bool = False
    """Nothing is delivered, and no other node takes it over."""

    def encode(self) -> bytes:
        active_from = None if self.active_from is None else self.active_from.to_wire()
        packed: bytes = msgpack.packb(
            (
                *(self.pattern, self.query, self.namespaces, self.position.to_wire(), self.used_ms),
                *(active_from, self.previous_address, self.moved_to),
                # Earlier versions read archives, and accept eight fields.
                *([True] if self.is_paused else []),
            )
        )
        return packed

    @classmethod
    def decode(cls, stored: bytes) -> DurableSubscription:
        pattern, query, namespaces, position, used, active_from, *rest = msgpack.unpackb(stored)
        active_position = None if active_from is None else Position.from_wire(active_from)
        return cls(
            pattern, query, namespaces, Position.from_wire(position), used, active_position, *rest
        )

    def has_query(self, query: Query) -> bool:
        """True if the stored query, as any node parses it, is this one."""
        if DEFAULT in self.namespaces:
            # Another node requests it with a prefix for each name.
            return parse_query(self.query, self.namespaces, NO_LIMITS) == query
        used = tuple((prefix, self.namespaces.get(prefix, "")) for prefix, _ in query.namespaces)
        return (self.query, used) == (query.text, query.namespaces)

    @property
    def complete_after(self) -> Mapping[str, Mark]:
        """Behind these marks the node's log has all events of other origins; empty before it is
        active."""
        return {} if self.active_from is None else self.active_from.marks

    @property
    def has_caught_up(self) -> bool:
        """True if all events before `active_from` are processed."""
        if self.active_from is None:
            return False
        return all(
            had >= mark or had[1] == mark[1]  # An epoch may have begun without events.
            for origin, mark in self.active_from.marks.items()
            for had in [self.position.marks.get(origin, (0, 0))]
        )


class DurableSubscriptions:
    """Durable subscriptions in memory, and stored in the log."""

    def __init__(
        self,
        log: EventLog,
        wall_clock: Callable[[], int],
        expiry_ms: int,
        realm: str = "",
        *,
        requires_key: bool = False,
    ) -> None:
        """`realm` is that of this node's accounts."""
        self._realm = realm
        self.requires_key = requires_key
        """Clients without a key may have none."""
        self._log = log
        self._wall_clock = wall_clock
        self._expiry_ms = expiry_ms
        self._stored: dict[bytes, DurableSubscription] = {}
        self._owners: dict[bytes, ClientOwner] = {}
        """By ClientId; only of clients with durable subscriptions, and after a reset."""
        for key, value in log.durables():
            client = _client_of(key)
            if key == _owner_key(client):
                self._owners[client] = ClientOwner.decode(value)
            else:
                self._stored[key] = DurableSubscription.decode(value)
        self._damaged = set(log.damaged_durables())
        self._keys_of: dict[bytes, dict[bytes, None]] = {}
        """Keys by ClientId, without empty ones."""
        for key in self._stored:
            self._keys_of.setdefault(_client_of(key), {})[key] = None
        self._in_use: set[bytes] = set()
        self.on_removed: Callable[[str, str], object] = lambda client_id, name: None

    @classmethod
    def from_settings(
        cls, settings: Settings, log: EventLog, wall_clock: Callable[[], int]
    ) -> DurableSubscriptions:
        expiry_ms = int(settings.log.durable_expiry * 1000)
        identity = settings.identity
        requires_key = identity.require_client_key
        return cls(log, wall_clock, expiry_ms, identity.realm, requires_key=requires_key)

    def __len__(self) -> int:
        return len(self._stored)

    def get(self, client_id: str, name: str) -> DurableSubscription | None:
        return self._stored.get(_key(client_id, name))

    def is_damaged(self, client_id: str, name: str) -> bool:
        return _key(client_id, name) in self._damaged

    def all(self) -> Iterator[tuple[str, str, DurableSubscription]]:
        for key, durable in self._stored.items():
            client, _, name = key.partition(b"\0")
            yield client.decode(), name.decode(), durable

    def of_client(self, client_id: str) -> dict[str, DurableSubscription]:
        client = client_id.encode()
        return {
            key[len(client) + 1 :].decode(): self._stored[key]
            for key in self._keys_of.get(client, ())
        }

    def clients(self) -> Iterator[str]:
        return (client.decode() for client in self._keys_of)

    def is_in_use(self, client_id: str, name: str) -> bool:
        return _key(client_id, name) in self._in_use

    def state(self, client_id: str, name: str) -> str:
        """Return `moved`, `paused`, `in-use` or `away`."""
        durable = self._stored[_key(client_id, name)]
        if durable.moved_to:
            return "moved"
        if durable.is_paused:
            return "paused"
        return "in-use" if self.is_in_use(client_id, name) else "away"

    def lag_snapshot(self) -> LagSnapshot:
        return LagSnapshot(self._log, self._wall_clock)

    def count_of_client(self, client_id: str) -> int:
        return len(self._keys_of.get(client_id.encode(), ()))

    def count_of_clients(self, is_counted: Callable[[str], bool]) -> int:
        return sum(
            len(keys) for client, keys in self._keys_of.items() if is_counted(client.decode())
        )

    def count_of_busiest_client(self) -> int:
        return max(map(len, self._keys_of.values()), default=0)

    def store(
        self,
        client_id: str,
        name: str,
        *,
        pattern: str,
        query: str,
        namespaces: Mapping[str, str],
        position: Position,
        stored: Callable[[], object],
        active_from: Position | None = None,
        previous_address: str = "",
        owner: ClientOwner = NO_OWNER,
    ) -> None:
        """Store a new subscription, or a new query of a known one, and the client's owner;
        `stored` is called after the commit.

        It is in use until `release`.
        """
        key = _key(client_id, name)
        self._in_use.add(key)
        known = self._stored.get(key)
        self._keys_of.setdefault(_client_of(key), {})[key] = None
        durable = DurableSubscription(
            *(pattern, query, dict(namespaces), position, self._wall_clock()),
            active_from=active_from,
            previous_address=previous_address,
            is_paused=known is not None and known.is_paused,
        )
        self._stored[key] = durable
        if owner != self.owner_of(client_id):
            self.set_owner(client_id, owner)
        self._log.put_durable(key, durable.encode(), stored)

    def owner_of(self, client_id: str) -> ClientOwner:
        return self._owners.get(client_id.encode(), NO_OWNER)

    def check_account(self, identity: Identity) -> None:
        """Raise `NotOwner` if the ClientId of a session belongs to another account."""
        client_id = identity.client_id
        self.owner_of(client_id).check_account(client_id, self.account_of(identity))

    def account_of(self, identity: Identity) -> AccountName | None:
        return (self._realm, identity.account) if identity.account else None

    def set_owner(self, client_id: str, owner: ClientOwner) -> None:
        """Store an owner; `NO_OWNER` replaces earlier ones in the archive too."""
        client = client_id.encode()
        self._owners[client] = owner
        self._log.put_durable(_owner_key(client), owner.encode())

    def acknowledge(self, client_id: str, name: str, position: Position) -> None:
        """Move the position up to which all events are processed."""
        key = _key(client_id, name)
        durable = self._stored.get(key)
        if durable is not None:
            updated = durable.position.merged(position)
            self._update(key, attrs.evolve(durable, position=updated, used_ms=self._wall_clock()))

    def set_active_from(self, client_id: str, name: str, position: Position) -> None:
        key = _key(client_id, name)
        durable = self._stored.get(key)
        if durable is not None:
            self._update(key, attrs.evolve(durable, active_from=position))

    def find_releasable_node(self, client_id: str, name: str) -> str:
        """Return the previous node if it can release the subscription; else empty."""
        durable = self._stored.get(_key(client_id, name))
        return "" if durable is None or not durable.has_caught_up else durable.previous_address

    def clear_previous_address(self, client_id: str, name: str, previous_address: str) -> None:
        key = _key(client_id, name)
        durable = self._stored.get(key)
        if durable is not None and durable.previous_address == previous_address:
            self._update(key, attrs.evolve(durable, previous_address=""))

    def set_paused(self, client_id: str, name: str, paused: bool) -> None:
        key = _key(client_id, name)
        durable = attrs.evolve(self._stored[key], is_paused=paused, used_ms=self._wall_clock())
        self._update(key, durable)

    def reset_position(self, client_id: str, name: str, position: Position) -> None:
        """Move the position of a subscription that is not in use."""
        key = _key(client_id, name)
        assert key not in self._in_use
        durable = attrs.evolve(self._stored[key], position=position, used_ms=self._wall_clock())
        self._update(key, durable)

    def mark_moved(
        self, client_id: str, name: str, address: str, stored: Callable[[], object]
    ) -> None:
        """Record that another node takes it over; `stored` is called after the commit."""
        key = _key(client_id, name)
        durable = self._stored[key]
        updated = attrs.evolve(durable, moved_to=address, used_ms=self._wall_clock())
        self._stored[key] = updated
        self._log.put_durable(key, updated.encode(), stored)

    def release(self, client_id: str, name: str) -> None:
        """Begin the expiry: no session uses the subscription."""
        key = _key(client_id, name)
        self._in_use.discard(key)
        durable = self._stored.get(key)
        if durable is not None:
            self._update(key, attrs.evolve(durable, used_ms=self._wall_clock()))

    def delete(self, client_id: str, name: str) -> None:
        key = _key(client_id, name)
        if key in self._stored:
            self._delete_key(key)

    def delete_expired(self) -> int:
        """Return the number of deleted subscriptions."""
        limit = self._wall_clock() - self._expiry_ms
        kept = self._stored.items()
        old = [key for key, d in kept if d.used_ms < limit and key not in self._in_use]
        for key in old:
            self._delete_key(key)
        return len(old)

    def _delete_key(self, key: bytes) -> None:
        del self._stored[key]
        client = _client_of(key)
        del self._keys_of[client][key]
        if not self._keys_of[client]:
            del self._keys_of[client]
            if self._owners.pop(client, None) is not None:
                self._log.put_durable(_owner_key(client), None)
        self._log.put_durable(key, None)
        name = key[len(client) + 1 :]
        self.on_removed(client.decode(), name.decode())

    def _update(self, key: bytes, durable: DurableSubscription) -> None:
        self._stored[key] = durable
        self._log.put_durable(key, durable.encode())


def _key(client_id: str, name: str) -> bytes:
    return client_id.encode() + b"\0" + name.encode()


def _owner_key(client: bytes) -> bytes:
    return _key(client.decode(), OWNER_NAME)


def _client_of(key: bytes) -> bytes:
    return key.partition(b"\0")[0]
