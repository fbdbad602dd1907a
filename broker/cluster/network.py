"""A node's part in the network: its place in it, its links, what it wants, and its own events."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from twisted.logger import Logger

from broker.cluster import messages
from broker.cluster.address import Address, UnitPath, is_within
from broker.cluster.admission import Situation, surplus
from broker.cluster.admission_context import situation_of
from broker.cluster.clone_detection import Refusals, earlier_clones
from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.driver import ClusterDriver
from broker.cluster.dtd_exchange import NeighbourDtds
from broker.cluster.handshake_core import Accepted
from broker.cluster.interest_announcer import OwnInterest
from broker.cluster.link_policy import LinkTerms
from broker.cluster.log_page_server import Pages
from broker.cluster.membership import Membership
from broker.cluster.multicast_group import ClusterGroup
from broker.cluster.neighbours import Neighbour, Neighbours
from broker.cluster.network_state import Knowledge
from broker.cluster.relay_ingest import Intake
from broker.cluster.remote_interest import RemoteWants
from broker.cluster.replicas.messages import KEEP
from broker.cluster.replicas.replicator import Owner
from broker.cluster.replicas.service import Keeping
from broker.cluster.timer_lag import Lateness
from broker.cluster.traffic import frame as frames
from broker.cluster.traffic.core import Traffic
from broker.cluster.traffic.frame import Carried, Frame, Range
from broker.cluster.traffic.known_histories import KnownHistories
from broker.cluster.traffic.messages import Kept, Resume, Routed
from broker.cluster.traffic.sender import Departing
from broker.cluster.types.network_types import NetworkTypes
from broker.errors import BrokerError, Cloned, Closed, ProtocolError, ShuttingDown
from broker.log.event_log import EventLog
from broker.log.records import LoggedEvent
from broker.transport.clock import IClock
from broker.transport.socket import ISocketChannel

_FRAME = bytes([frames.KIND])
_KEEP = bytes([KEEP])


class Network:
    """One node's. Not before `joined` does it know anything of others."""

    log = Logger()
    membership: Membership
    neighbours: Neighbours
    group: ClusterGroup

    def __init__(
        self,
        *,
        event_log: EventLog,
        wants: RemoteWants,
        intake: Intake,
        make_pages: Callable[[Network], Pages],
        dtds: NeighbourDtds,
        types: NetworkTypes,
        owner: Owner,
        clock: IClock,
        wall_clock: Callable[[], int],
        terms: LinkTerms,
        most_nodes: int,
        compress: bool,
        patience: float,
    ) -> None:
        self.event_log = event_log
        self.wants = wants
        self.wall_clock = wall_clock
        self._refusals = Refusals()
        self._terms = terms
        self.lateness = Lateness(clock)
        self._most_nodes = most_nodes
        self._compress, self._patience = compress, patience
        self._sent = event_log.coverage[event_log.origin]
        driver = self.driver = ClusterDriver(
            event_log=event_log,
            wants=wants,
            intake=intake,
            dtds=dtds,
            types=types,
            clock=clock,
            wall_clock=wall_clock,
            map_moved=self._map_moved,
        )
        self.interest = OwnInterest(driver)
        """What the subscriptions of this node want of others."""
        self.keeping = driver.keeping = Keeping(
            event_log,
            owner,
            tell=lambda name, said: self.neighbours.tell(messages.encode(said), name),
            say=driver.send_routed,
            own=lambda: None if self.knowledge is None else self.knowledge.address,
            answer=driver.send_frame,
            replaced=lambda whose, origin: (
                self.knowledge is not None and self.knowledge.has_other_log(whose, origin)
            ),
        )
        driver.pages, driver.cloned = make_pages(self), self.cloned
        self.types = types
        dtds.ask_by(driver.send_routed)

    @property
    def knowledge(self) -> Knowledge | None:
        """What is known of others; None while the node is in no cluster."""
        return self.driver.knowledge

    @property
    def traffic(self) -> Traffic | None:
        """Events between nodes; None while the node is in no cluster."""
        return self.driver.traffic

    def wire(self, membership: Membership, neighbours: Neighbours, group: ClusterGroup) -> None:
        """Who makes connections, who has the links, and the cluster's IP multicast group."""
        self.membership = membership
        self.neighbours = self.driver.neighbours = neighbours
        self.group = self.driver.group = group

    def begin(self) -> None:
        """Take the place that the settings give the node, or ask for one."""
        unit = self.membership.node.address.unit
        if unit:
            self.joined(unit, 0)
        else:
            self.membership.ask()

    # ------------------------------------------------------------------ own events

    def committed(self, events: list[LoggedEvent], matches: Sequence[tuple[int, ...]]) -> None:
        """Events of this node have become durable: send them to who wants them."""
        if self.traffic is None or not events:
            return
        self.keeping.committed(events)
        after, self._sent = self._sent, events[-1].mark
        destinations = self.wants.destinations
        departing = [
            Departing(Carried(event.mark, event.record, event.document), event.level, whom)
            for event, numbers in zip(events, matches, strict=True)
            if (whom := destinations(numbers))
        ]
        self.driver.do(self.traffic.began(after, self._sent, departing))

    def lost(self) -> None:
        """Own events were lost (`broker.log.histories`): everybody asks what follows the last
        own place, and is told."""
        self._sent = self.event_log.coverage[self.event_log.origin]
        if self.traffic is not None:
            self.driver.do(self.traffic.began(self._sent, self._sent, []))

    def progress(self) -> None:
        """Tell others how far events have got: to be called each second."""
        self.wants.tidy()
        self.lateness.probe()
        self.membership.tell_slow(self.lateness.is_slow)
        if self.traffic is None or self.knowledge is None:
            return
        self.driver.do(self.traffic.progress(self.driver.now()))
        self.keeping.take(self.knowledge.is_here, self.driver.wanted_behind)
        for frame in self.keeping.vouch(self.knowledge.is_here, self.knowledge.destinations()):
            self.driver.do(self.traffic.frame_came(frame, self.driver.now()))

    # ------------------------------------------------------------------ membership (Home)

    def joined(self, cluster: UnitPath, admitted: int) -> None:
        """The node is a member of a cluster from now on; of another one than before, maybe."""
        node = self.membership.node
        address = Address(cluster, node.name)
        node = node._replace(address=address, admitted=admitted)
        if self.knowledge is not None and self.knowledge.address == address:
            self.membership.node = node
            self.driver.do(self.knowledge.describe(node, self.driver.now()))
            return
        self.leave(Closed(f"{node.name} is a member of another cluster"))
        self.membership.node = node
        log = self.event_log
        knowledge = Knowledge(node, lambda: (log.origin, *log.cut))
        traffic = Traffic(
            knowledge,
            log.origin,
            lambda: log.cut,
            lambda origin: log.coverage[origin] if origin in log.coverage else None,
            compress=self._compress,
            patience=self._patience,
            begins=self.driver.local.newcomers.begins,
            group=self._in_group,
            history=lambda: log.history,
            histories=KnownHistories(log.histories_of),
        )
        self.driver.start(knowledge, traffic)
        self._sent = log.cut
        self.log.info("{address} is a member of its cluster", address=str(address))
        now = self.driver.now()
        # Others may know what an earlier process wanted, or nothing at all: until they have been
        # told, what they say is for this node is not all that it wants.
        self.driver.local.begin_again()
        if self.driver.local.climbing:
            traffic.close()
        self.driver.do(knowledge.describe(node, now))
        for key, pattern, query in self.driver.local:
            self.driver.do(knowledge.want(key, pattern, query, now))

    async def stop(self) -> None:
        """Leave in good order (Q17): others find ways around this node, and have what it sent."""
        self.membership.stop()
        knowledge, traffic = self.knowledge, self.traffic
        if knowledge is None or traffic is None:
            return
        leaving = self.membership.node._replace(draining=True)
        self.driver.do(knowledge.describe(leaving, self.driver.now()))
        self.driver.do(traffic.progress(self.driver.now()))
        self.driver.stop()
        await self.neighbours.flush_all()

    def leave(self, error: BrokerError) -> None:
        """End all links, and forget what was known of others."""
        self.neighbours.close_all(error)
        self.driver.stop()

    def linked(
        self, accepted: Accepted, channel: ISocketChannel, transport: str, initiated: bool
    ) -> None:
        """A connection was accepted."""
        if self.knowledge is None:
            channel.abort(ShuttingDown("this node is in no cluster"))
            return
        neighbour = Neighbour(
            node=accepted.peer,
            trusted=accepted.trusted,
            secure=channel.secure,
            transport=transport,
            purpose=accepted.purpose,
            initiated=initiated,
            peer=channel.peer_description,
            version=accepted.version,
        )
        self.neighbours.attach(neighbour, channel)
        known = self.neighbours.get(accepted.peer.name)
        if known is not None and known.up:
            # A connection beside another one, or in its place: whoever dialled is to rest.
            self.membership.link_up(known.name)

    def cloned(self, error: Cloned) -> None:
        """Another process on a copy of this log has this node's place: give no more places, once
        that is no mistake about a process that has just ended."""
        if self._refusals.is_certain(self.driver.now()):
            self.log.error("this node takes no more events: {error}", error=error)
            self.event_log.disown(error)
            self.membership.stop()
            self.leave(error)

    def situation(self) -> Situation | None:
        """What is known of the cluster."""
        if self.knowledge is None:
            return None
        behind = self.driver.intake.is_behind() or self.lateness.is_slow
        return situation_of(self.membership.node, self.knowledge, self.neighbours, behind=behind)

    def presence(self) -> tuple[NodeDescriptor, bool] | None:
        """How the node describes itself to who looks for a cluster, and whether there is room."""
        if self.knowledge is None:
            return None
        room = len(self.knowledge.map.members()) < self._most_nodes
        return self.membership.node, room

    # ------------------------------------------------------------------ links (LinkListener)

    def link_up(self, neighbour: Neighbour) -> None:
        """There is a link to a node."""
        if self.knowledge is None:
            return
        terms = self._terms
        clearance = terms.clearance_of(neighbour)
        cost = terms.cost_of(self.knowledge.address.unit, neighbour.node.address.unit)
        self.log.info("linked to {address}", address=str(neighbour.node.address))
        self.driver.do(
            self.knowledge.link_up(
                neighbour.node, neighbour.transport, cost, clearance, self.driver.now()
            )
        )
        self.membership.link_up(neighbour.name)
        self.types.fetcher.try_now()
        self._count_members()

    def link_broken(self, neighbour: Neighbour) -> None:
        """A link's connection broke."""
        self.membership.link_broken(neighbour.name)

    def link_down(self, neighbour: Neighbour, error: BrokerError | None) -> None:
        """A link is down."""
        if self.knowledge is None:
            return
        self.log.info(
            "the link to {address} is down: {error}",
            address=str(neighbour.node.address),
            error=error or "closed",
        )
        self.keeping.neighbour_gone(neighbour.name)
        self.driver.do(self.knowledge.link_down(neighbour.name, self.driver.now()))
        self.membership.link_down(neighbour.name)
        self._count_members()

    def no_link(self, neighbour: Neighbour) -> None:
        """No link came of a connection."""
        self.membership.link_down(neighbour.name)

    def messages_received(self, neighbour: Neighbour, batch: Sequence[bytes]) -> None:
        """Messages of a neighbour. Raises `ProtocolError` for what it must not say."""
        for data in batch:
            if self.knowledge is None or self.traffic is None:
                return
            now = self.driver.now()
            if data[:1] == _FRAME:
                self._frame_came(frames.decode(data), neighbour)
                continue
            if data[:1] == _KEEP:
                self.keeping.keeper.keep(neighbour.node.address, data)
                continue
            message = messages.decode(data)
            if isinstance(message, Kept) and message.source != neighbour.node.address:
                # Publishers are told that their events are safe: that is a keeper's own word.
                raise ProtocolError("Kept in the name of another node")
            if isinstance(message, Resume) and self._asks_for_copies(message):
                self.keeping.serve(message)
            elif isinstance(message, Routed):
                self.driver.do(self.traffic.message_came(message, now))
            elif not self.keeping.told(neighbour, message):
                self.driver.do(self.knowledge.received(neighbour.name, message, now))

    def _frame_came(self, frame: Frame, neighbour: Neighbour) -> None:
        validates = self._terms.validate_always or not neighbour.trusted
        if validates and frame.count and self._passes_on(frame):
            self.driver.intake.check(frame, self.driver.send_frame)
        else:
            self.driver.send_frame(frame)

    def _passes_on(self, frame: Frame) -> bool:
        """Whether something of a frame is for nobody here: all else is validated here anyway."""
        assert self.knowledge is not None
        own = self.knowledge.address
        return any(
            told.destination != own
            and (told.destination.node or not is_within(own.unit, told.destination.unit))
            for told in frame.ranges
        )

    def _asks_for_copies(self, resume: Resume) -> bool:
        assert self.knowledge is not None
        return resume.target == self.knowledge.address and self.keeping.serves(resume)

    def group_frame_came(self, data: bytes) -> None:
        """What a member sent to all of the group. Raises `ProtocolError` if that is no frame."""
        if self.traffic is not None:
            self.driver.do(self.traffic.group_frame_came(frames.decode(data), self.driver.now()))

    def _in_group(self, rank: int) -> Collection[str]:
        return self.group.members if rank <= self._terms.group_clearance else ()

    def _count_members(self) -> None:
        assert self.knowledge is not None
        unit = self.knowledge.address.unit
        members = sum(each.up and each.node.address.unit == unit for each in self.neighbours)
        self.membership.links_changed(members)
        self.keeping.links_changed(self.neighbours, self.knowledge.address)

    def _map_moved(self) -> None:
        knowledge = self.knowledge
        assert knowledge is not None
        members = knowledge.map.members()
        if knowledge.address.node in surplus(members, self._most_nodes):
            self.log.warn("there is no room in the cluster: this node came last, and leaves")
            self.leave(Closed("this node has left the cluster"))
            self.membership.must_leave()
            return
        for name, error in earlier_clones(self.neighbours, members):
            self.neighbours.close(name, error)
        self.membership.aim(members)

    # ------------------------------------------------------------------ for pages

    def destination_of(self, reader: Address) -> Address:
        """Whose wants a reader's are part of."""
        assert self.knowledge is not None
        return self.knowledge.towards(reader)

    def cleared(self, reader: Address, rank: int) -> bool:
        """Whether events of a rank may go to a reader."""
        return self.knowledge is not None and self.knowledge.next_hop(reader, rank) is not None

    def served(self, resume: Resume, page: Range, carried: Sequence[Carried]) -> None:
        """A page was read."""
        if self.traffic is not None:
            self.driver.do(self.traffic.served(resume, page, carried, self.driver.now()))
