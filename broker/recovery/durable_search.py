"""Search for a durable subscription whose previous node is unknown (P11).

It descends the hierarchy of units (`docs/protocols/questions.md`), and asks each node once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from broker.cluster.address import Address, UnitPath, address_or_none, is_within
from broker.cluster.gateway_rotation import MOST_GATEWAYS, GatewayRotation
from broker.cluster.known_peers import PEER_EXPIRY
from broker.cluster.node_messenger import NodeMessenger
from broker.cluster.node_requests import NodeRequests
from broker.cluster.traffic.frame import MAX_HOPS
from broker.recovery.messages import MAX_SEARCHED, DurableKey, DurablesFound, FindDurables
from broker.subscriptions.durable_subscriptions import DurableSubscriptions
from broker.transport.clock import IClock

#: Seconds that a search waits for others.
BATCH_DELAY = 0.05
#: For the answer of a unit. Its gateway gives the nodes that it asks this share of the time.
ANSWER_MS = 6_000
_TIME_SHARE = 0.6
#: Seconds from the start in which a node learns of others.
LEARNING_TIME = 3.0
#: The same while none of its cluster's seeds has come.
ALONE_LEARNING_TIME = 60.0
#: Seconds in which a silent node may return.
RETURN_TIME = 60.0
#: Seconds between two updates of the silent nodes.
CHECK_INTERVAL = 5.0
#: Bound of the nodes named for one subscription.
MAX_HOLDERS = 4
Holders: TypeAlias = dict[DurableKey, list[str]]


class DurableSearch:
    log = Logger()

    def __init__(
        self, messenger: NodeMessenger, durables: DurableSubscriptions, clock: IClock
    ) -> None:
        self._messenger = messenger
        self._durables = durables
        self._clock = clock
        self._waiting: dict[DurableKey, list[Deferred[tuple[list[Address], bool]]]] = {}
        self._requests = NodeRequests(messenger, clock, DurablesFound)
        self._gateways = GatewayRotation(messenger)
        self._started_at = clock.seconds()
        self._silent_since: dict[str, float] = {}
        """By unreachable origin the time since when."""
        self._checked_at: float | None = None
        messenger.add_listener(FindDurables, self._receive_question)

    @property
    def knows_cluster(self) -> bool:
        began = self._clock.seconds() - self._started_at
        return began >= (
            ALONE_LEARNING_TIME if self._messenger.is_missing_members else LEARNING_TIME
        )

    def track_silent_nodes(self) -> None:
        """Call it each second."""
        now = self._clock.seconds()
        if self._checked_at is None or now >= self._checked_at + CHECK_INTERVAL:
            self._update_silent(now)

    def count_silent(self) -> tuple[bool, int]:
        """Return whether a silent node may still return, and how many fell silent within a day."""
        now = self._clock.seconds()
        if self._checked_at is None or now >= self._checked_at + BATCH_DELAY:
            # Many clients may come at once.
            self._update_silent(now)
        expected = any(at > now - RETURN_TIME for at in self._silent_since.values())
        fell = max(self._started_at, now - PEER_EXPIRY)
        return expected, sum(at > fell for at in self._silent_since.values())

    def _update_silent(self, now: float) -> None:
        since = self._started_at if self._checked_at is None else now
        self._checked_at = now
        self._silent_since = {
            origin: self._silent_since.get(origin, since)
            for origin in self._messenger.list_unreachable_origins()
        }

    def find_holders(self, client_id: str, name: str) -> Deferred[tuple[list[Address], bool]]:
        """Find the nodes outside this cluster that have it or handed it over.

        The second result is whether all nodes have answered.
        """
        found: Deferred[tuple[list[Address], bool]] = Deferred()
        if not self._messenger.gateways_by_unit():
            found.callback(([], True))
            return found
        if not self._waiting:
            self._clock.callLater(BATCH_DELAY, self._start_search)
        self._waiting.setdefault((client_id, name), []).append(found)
        return found

    def _start_search(self) -> None:
        batches = list(self._waiting.items())
        self._waiting = {}
        for start in range(0, len(batches), MAX_SEARCHED):
            some = dict(batches[start : start + MAX_SEARCHED])
            units = self._gateways.choose_gateways((), MOST_GATEWAYS)
            searching = Deferred.fromCoroutine(self._search(list(some), units, ANSWER_MS))
            searching.addCallback(self._deliver_result, some)

    def _deliver_result(
        self,
        answer: tuple[Holders, bool],
        waiting: dict[DurableKey, list[Deferred[tuple[list[Address], bool]]]],
    ) -> None:
        found, is_complete = answer
        for keys, deferreds in waiting.items():
            named = map(address_or_none, found.get(keys, ()))
            addresses = [address for address in named if address is not None]
            for each in deferreds:
                each.callback((addresses, is_complete))

    # ------------------------------------------------------------------ asking

    async def _search(
        self,
        keys: Sequence[DurableKey],
        targets: Sequence[tuple[Address | None, UnitPath | None]],
        ms: int,
    ) -> tuple[Holders, bool]:
        asked = [self._send_question(address, unit, keys, ms) for address, unit in targets]
        found: Holders = {}
        names = [node if unit is None else unit for node, unit in targets]
        complete: dict[Address | UnitPath | None, bool] = {}
        """By node or unit with an answer. A unit may be asked over several gateways."""
        for name, each in zip(names, asked, strict=True):
            answer = await each
            if answer is None:
                continue
            complete[name] = complete.get(name, True) and answer.is_complete
            for index, address in answer.found:
                if index < len(keys):
                    _add_holder(found, keys[index], address)
        return found, all(complete.get(each, False) for each in names)

    def _send_question(
        self, address: Address | None, unit: UnitPath | None, keys: Sequence[DurableKey], ms: int
    ) -> Deferred[DurablesFound | None]:
        fields = self._requests.first_fields(address)
        if fields is None:
            return succeed(None)
        return self._requests.send(FindDurables(*fields, tuple(keys), unit, ms), ms / 1000)

    # ------------------------------------------------------------------ being asked

    def _receive_question(self, message: FindDurables) -> None:
        own = self._messenger.own_address
        if own is None:
            return
        found: Holders = {}
        for client_id, name in message.keys:
            # The node that it was handed to may have died before it stored it.
            if self._durables.get(client_id, name) is not None:
                _add_holder(found, (client_id, name), str(own))
        scope = message.unit
        if scope is None:
            self._send_answer(own, message, found, is_complete=True)
            return
        if not (self.knows_cluster and is_within(own.unit, scope)) or self._requests.is_half_full:
            self._send_answer(own, message, found, is_complete=False)
            return
        # Members disappear from the list before their return is given up.
        expected, _ = self.count_silent()
        targets = [(address, None) for address in self._messenger.list_members()]
        searching = Deferred.fromCoroutine(
            self._search(
                message.keys,
                [*targets, *self._gateways.choose_gateways(scope)],
                round(_TIME_SHARE * min(message.within, ANSWER_MS)),
            )
        )

        def finish(answer: tuple[Holders, bool]) -> None:
            for keys, addresses in answer[0].items():
                for address in addresses:
                    _add_holder(found, keys, address)
            self._send_answer(own, message, found, is_complete=answer[1] and not expected)

        searching.addCallback(finish)

    def _send_answer(
        self, own: Address, asked: FindDurables, found: Holders, *, is_complete: bool
    ) -> None:
        pairs = tuple((n, at) for n, each in enumerate(asked.keys) for at in found.get(each, ()))
        self._messenger.send(
            DurablesFound(asked.source, own, MAX_HOPS, asked.request, pairs, is_complete)
        )


def _add_holder(found: Holders, keys: DurableKey, address: str) -> None:
    addresses = found.setdefault(keys, [])
    if address not in addresses and len(addresses) < MAX_HOLDERS:
        addresses.append(address)
