"""Who has the durable subscription of a client that does not know where it was (P11).

The network is asked from above: of each unit that lies beside this node's own units one gateway is
asked, which asks the nodes of its cluster, and one gateway of each unit beside it that lies in
the unit it was asked for. So every node is asked once, whatever the clusters are linked like.
Nodes in between ask for less time than they were given, so that what they found is not too late.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from broker.cluster.address import Address, UnitPath, address_or_none, is_within
from broker.cluster.known_peers import REMEMBERED
from broker.cluster.node_messenger import Correspondence
from broker.cluster.traffic.frame import MAX_HOPS
from broker.recovery.messages import MOST_SOUGHT, Seek, Sought, Wanted
from broker.subscriptions.durables import Durables
from broker.transport.clock import IClock

#: Clients that come together are sought together: seconds that the first of them waits.
GATHERING = 0.05
#: Ms that a unit has to answer; what it asks itself has `_SHARE` of that.
WITHIN = 6_000
_SHARE = 0.6
#: Seconds that a node has after its start to learn of others.
SETTLING = 3.0
#: The same where it was told of others of its cluster, and none of them has come: it may be that
#: nobody tells of them any more.
ALONE = 60.0
#: Seconds for which a node that fell silent is expected back, if it may have a subscription.
EXPECTED = 60.0
#: Seconds between two looks at who has fallen silent.
LOOK = 5.0
#: Questions of this node that may be open. While there are more it asks nobody for others, and says
#: that not all have answered: whoever seeks asks again.
MOST_OPEN = 10_000
#: Nodes that are named for one subscription. A node that was away may have an old position.
MOST_HOLDERS = 4
#: By subscription the addresses of the nodes that have it.
Found: TypeAlias = dict[Wanted, list[str]]


class Seeking:
    """Both sides: who seeks, and who is asked."""

    log = Logger()

    def __init__(self, post: Correspondence, durables: Durables, clock: IClock) -> None:
        self._post = post
        self._durables = durables
        self._clock = clock
        self._gathered: dict[Wanted, list[Deferred[tuple[list[Address], bool]]]] = {}
        self._asked: dict[int, Deferred[Sought | None]] = {}
        self._turn = 0
        self._began = clock.seconds()
        self._silent: dict[str, float] = {}
        """By origin whose node can not be asked, since when: since this node began, if it has not
        been heard of since."""
        self._looked_at: float | None = None
        post.hear(Seek, self._seek)
        post.hear(Sought, self._answered)

    @property
    def knows_cluster(self) -> bool:
        """Whether this node has had the time to learn of the others of its cluster."""
        began = self._clock.seconds() - self._began
        return began >= (ALONE if self._post.is_alone else SETTLING)

    def look(self) -> None:
        """To be called each second: note whose nodes have fallen silent."""
        now = self._clock.seconds()
        if self._looked_at is None or now >= self._looked_at + LOOK:
            self._note_silent(now)

    def silent(self) -> tuple[bool, int]:
        """Whether a node that fell silent, or has not been heard of since this one began, is still
        expected; and of how many origins the nodes fell silent within a day."""
        now = self._clock.seconds()
        if self._looked_at is None or now >= self._looked_at + GATHERING:
            # Many clients may come at once.
            self._note_silent(now)
        expected = any(at > now - EXPECTED for at in self._silent.values())
        fell = max(self._began, now - REMEMBERED)
        return expected, sum(at > fell for at in self._silent.values())

    def _note_silent(self, now: float) -> None:
        since = self._began if self._looked_at is None else now
        self._looked_at = now
        self._silent = {
            origin: self._silent.get(origin, since) for origin in self._post.unreachable_origins()
        }

    def find(self, client_id: str, name: str) -> Deferred[tuple[list[Address], bool]]:
        """The nodes outside this one's cluster that have a durable subscription, or know where it
        went; and whether all have answered."""
        found: Deferred[tuple[list[Address], bool]] = Deferred()
        if not self._post.entrances():
            found.callback(([], True))
            return found
        if not self._gathered:
            self._clock.callLater(GATHERING, self._begin)
        self._gathered.setdefault((client_id, name), []).append(found)
        return found

    def _begin(self) -> None:
        gathered = list(self._gathered.items())
        self._gathered = {}
        for start in range(0, len(gathered), MOST_SOUGHT):
            some = dict(gathered[start : start + MOST_SOUGHT])
            units = self._units(())
            searching = Deferred.fromCoroutine(self._search(list(some), units, WITHIN))
            searching.addCallback(self._tell, some)

    def _tell(
        self,
        answer: tuple[Found, bool],
        waiting: dict[Wanted, list[Deferred[tuple[list[Address], bool]]]],
    ) -> None:
        found, whole = answer
        for wanted, deferreds in waiting.items():
            named = map(address_or_none, found.get(wanted, ()))
            addresses = [address for address in named if address is not None]
            for each in deferreds:
                each.callback((addresses, whole))

    # ------------------------------------------------------------------ asking

    async def _search(
        self,
        wanted: Sequence[Wanted],
        whom: Sequence[tuple[Address | None, UnitPath | None]],
        ms: int,
    ) -> tuple[Found, bool]:
        """By what is wanted, where it is; and whether all have answered."""
        asked = [self._ask(address, unit, wanted, ms) for address, unit in whom]
        found: Found = {}
        whole = True
        for each in asked:
            answer = await each
            if answer is None:
                whole = False
                continue
            whole = whole and answer.whole
            for index, address in answer.found:
                if index < len(wanted):
                    _add(found, wanted[index], address)
        return found, whole

    def _ask(
        self, address: Address | None, unit: UnitPath | None, wanted: Sequence[Wanted], ms: int
    ) -> Deferred[Sought | None]:
        answer: Deferred[Sought | None] = Deferred()
        own = self._post.own
        if address is None or own is None or not self._post.reachable(address):
            answer.callback(None)
            return answer
        number = self._post.next_number()
        self._asked[number] = answer
        self._clock.callLater(ms / 1000, self._settle, number, None)
        self._post.say(Seek(address, own, MAX_HOPS, number, tuple(wanted), unit, ms))
        return answer

    def _units(self, scope: UnitPath) -> list[tuple[Address | None, UnitPath | None]]:
        """The units in `scope` beside this node's own, and whom to ask: each time another one, as
        one of them may be silent."""
        self._turn += 1
        found: list[tuple[Address | None, UnitPath | None]] = []
        for unit, gateways in sorted(self._post.entrances().items()):
            if is_within(unit, scope):
                there = [each for each in gateways if self._post.reachable(each)]
                found.append((there[self._turn % len(there)] if there else None, unit))
        return found

    def _answered(self, message: Sought) -> None:
        self._settle(message.request, message)

    def _settle(self, number: int, message: Sought | None) -> None:
        answer = self._asked.pop(number, None)
        if answer is not None:
            answer.callback(message)

    # ------------------------------------------------------------------ being asked

    def _seek(self, message: Seek) -> None:
        own = self._post.own
        if own is None:
            return
        found: Found = {}
        for client_id, name in message.wanted:
            # Also if it was handed over: the node that took it may have died before it stored it.
            if self._durables.get(client_id, name) is not None:
                _add(found, (client_id, name), str(own))
        scope = message.unit
        if scope is None:
            self._answer(own, message, found, whole=True)
            return
        if not (self.knows_cluster and is_within(own.unit, scope)) or len(self._asked) > MOST_OPEN:
            self._answer(own, message, found, whole=False)
            return
        # A member that fell silent is forgotten before it is no longer expected.
        expected, _ = self.silent()
        whom = [(address, None) for address in self._post.members()]
        searching = Deferred.fromCoroutine(
            self._search(
                message.wanted, [*whom, *self._units(scope)], round(_SHARE * message.within)
            )
        )

        def over(answer: tuple[Found, bool]) -> None:
            for wanted, addresses in answer[0].items():
                for address in addresses:
                    _add(found, wanted, address)
            self._answer(own, message, found, whole=answer[1] and not expected)

        searching.addCallback(over)

    def _answer(self, own: Address, asked: Seek, found: Found, *, whole: bool) -> None:
        told = tuple((n, at) for n, each in enumerate(asked.wanted) for at in found.get(each, ()))
        self._post.say(Sought(asked.source, own, MAX_HOPS, asked.request, told, whole))


def _add(found: Found, wanted: Wanted, address: str) -> None:
    addresses = found.setdefault(wanted, [])
    if address not in addresses and len(addresses) < MOST_HOLDERS:
        addresses.append(address)
