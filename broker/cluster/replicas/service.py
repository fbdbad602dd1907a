"""Both sides of keeping, as a node's network uses them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from broker.cluster.address import Address
from broker.cluster.messages import Message
from broker.cluster.neighbours import Neighbour
from broker.cluster.replicas.messages import AskKeeper, KeeperHas
from broker.cluster.replicas.page_frame import page_of
from broker.cluster.replicas.replicator import Owner
from broker.cluster.replicas.store import Keeper
from broker.cluster.traffic.frame import MAX_HOPS, Frame, Range
from broker.cluster.traffic.messages import Kept, Lost, Resume, Routed
from broker.errors import ProtocolError
from broker.event.place import Mark
from broker.log.damage import Damage, DamageFound
from broker.log.event_log import EventLog
from broker.log.records import LoggedEvent

#: A page of copies: events, and bytes of them.
PAGE_EVENTS = 512
PAGE_BYTES = 512 << 10


class Keeping:
    """A node's own keeper, and what it keeps for others."""

    log = Logger()

    def __init__(
        self,
        event_log: EventLog,
        owner: Owner,
        tell: Callable[[str, Message], object],
        say: Callable[[Routed], object],
        own: Callable[[], Address | None],
        answer: Callable[[Frame], object],
        replaced: Callable[[Address, str], bool],
    ) -> None:
        """`tell` answers a neighbour, `say` and `answer` send on what is for any node. `replaced`
        says whether the node at an address has another log than that with this origin."""
        self.owner = owner
        self.keeper = Keeper(event_log, tell, lambda kept: tell(kept.target.node, kept), own)
        self._log = event_log
        self._own = own
        self._say = say
        self._answer = answer
        self._replaced = replaced
        self._reading = False
        self._links: dict[str, str] = {}
        """By neighbour: the origin of its log."""

    # ------------------------------------------------------------------ links

    def links_changed(self, neighbours: Iterable[Neighbour], own: Address) -> None:
        """These links are up: the own keeper is the first of the own cluster, or else any."""
        up = [each for each in neighbours if each.up]
        self._links = {each.name: each.node.origin for each in up}
        for name, origin in self._links.items():
            self.keeper.linked(name, origin)
        order = sorted(
            up, key=lambda each: (each.node.address.unit != own.unit, not each.trusted, each.name)
        )
        self.owner.choose([each.name for each in order])

    def neighbour_gone(self, name: str) -> None:
        """The link to a neighbour is down."""
        self.keeper.neighbour_gone(name)

    def told(self, neighbour: Neighbour, message: Message) -> bool:
        """A message of a neighbour; whether it was about keeping."""
        match message:
            case AskKeeper(origin):
                if origin != neighbour.node.origin:
                    raise ProtocolError("AskKeeper for the events of another node")
                self.keeper.asked(neighbour.node.address, message)
            case KeeperHas():
                self.owner.keeper_has(neighbour.name, message)
            case _:
                return False
        return True

    def kept(self, message: Kept) -> None:
        """The keeper has something durably."""
        if message.origin == self._log.origin:
            self.owner.kept_upto(message.source.node, message.upto)

    def committed(self, events: list[LoggedEvent]) -> None:
        """Own events have become durable."""
        self.owner.committed(events)

    # ------------------------------------------------------------------ for those that are gone

    def vouch(
        self, here: Callable[[str], bool], destinations: Iterable[Address]
    ) -> Iterator[Frame]:
        """For each origin whose node is not `here`: who lacks something is to ask this node."""
        own = self._own()
        whom = list(destinations)
        if own is None or not whom:
            return
        for origin in self.dead(here):
            upto = self._log.kept[origin].upto
            yield page_of(origin, own, [Range(each, upto, upto) for each in whom], [])

    def take(
        self, here: Callable[[str], bool], wanted_behind: Callable[[str], Mark | None]
    ) -> None:
        """This node itself, too, gets what is kept here of nodes that are not `here`, from where it
        lacks something of their events, if it wants any."""
        own = self._own()
        for origin in self.dead(here):
            after = wanted_behind(origin)
            if own is not None and after is not None and after < self._log.kept[origin].upto:
                self.serve(Resume(own, own, MAX_HOPS, origin, after, all=True))

    def dead(self, here: Callable[[str], bool]) -> list[str]:
        """The origins that are kept here whose nodes are not `here`."""
        own, addresses = self._own(), self.keeper.owners
        found = []
        for origin in self._log.kept:
            address = addresses.get(origin)
            # That there is a way into another cluster says nothing of a node in it: a link does.
            far = own is not None and address is not None and address.unit != own.unit
            linked = address is not None and self._links.get(address.node) == origin
            if not (linked if far else here(origin)):
                found.append(origin)
        return found

    def serves(self, resume: Resume) -> bool:
        """Whether a page is asked for of an origin that is kept here."""
        return resume.origin in self._log.kept

    def serve(self, resume: Resume) -> None:
        """Send a page of copies. What lies before them is lost where its owner's disk is."""
        span = self._log.kept[resume.origin]
        if resume.after < span.after:
            self._say_lost(resume, span.after)
            return
        if self._reading or resume.after >= span.upto:
            return
        self._reading = True
        Deferred.fromCoroutine(self._serve(resume, span.upto)).addErrback(
            lambda failure: self.log.failure("reading copies failed", failure)
        )

    def _say_lost(self, resume: Resume, upto: Mark) -> None:
        owner, own = self.keeper.owners.get(resume.origin), self._own()
        replaced = resume.origin in self.keeper.replaced or (
            owner is not None and self._replaced(owner, resume.origin)
        )
        if own is not None and replaced:
            self._say(Lost(resume.source, own, MAX_HOPS, resume.origin, upto))

    async def _serve(self, resume: Resume, upto: Mark) -> None:
        try:
            events = await self._log.read_kept(
                resume.origin, resume.after, PAGE_EVENTS, PAGE_BYTES, wait=False
            )
        except DamageFound as found:
            self._pass_damage(resume, found.damage)
            return
        finally:
            self._reading = False
        own, span = self._own(), self._log.kept.get(resume.origin)
        if own is None or span is None or resume.after < span.after:
            # Some of them may have had to go while they were read: it is to ask again.
            return
        full = len(events) >= PAGE_EVENTS or sum([each.size for each in events]) >= PAGE_BYTES
        # An origin's places have no holes: an earlier end is the beginning of damage.
        full = full or bool(events and events[-1].offset < upto[1])
        end = events[-1].mark if full else upto
        page = Range(resume.source, resume.after, end, more=end < upto, all=True)
        self._answer(page_of(resume.origin, own, [page], events))

    def _pass_damage(self, resume: Resume, damage: Damage) -> None:
        """Say that nobody has what was given up. During a repair the reader asks again."""
        own, span = self._own(), self._log.kept.get(resume.origin)
        if own is None or span is None or not self._log.repairs.gave_up(damage):
            return
        upto = damage.upto
        page = Range(resume.source, resume.after, upto, upto, more=upto < span.upto, all=True)
        self._answer(page_of(resume.origin, own, [page], []))
