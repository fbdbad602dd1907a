"""How a node comes to have links: whom it asks, whom it dials, whom it lets in.

A thin adapter around `joining`, `meshing`, `reception` and the greeting. It makes connections and
hands those that were accepted over; what goes over them is the business of others.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Protocol

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from broker.cluster.known_peers import Acquaintances
from broker.cluster.address import UnitPath
from broker.cluster.admission import AdmissionRules, Situation
from broker.cluster.link_log import Complaints
from broker.cluster.connection_error import not_connected
from broker.cluster.descriptor import Endpoint, NodeDescriptor
from broker.cluster.handshake import Greeting, host_of, turn_away
from broker.cluster.handshake_messages import GATEWAY, MEMBER, NodeHello
from broker.cluster.handshake_core import (
    Accepted,
    Admission,
    Answering,
    Dialling,
    Refusal,
    Refused,
)
from broker.cluster.membership_listener import Home
from broker.cluster.joining import Ask, Founded, Joined, Joining, JoiningState, NotYet
from broker.cluster.joining import Effect as JoiningEffect
from broker.cluster.meshing import Dial, Meshing, Target
from broker.cluster.acceptor import Reception
from broker.errors import AddressNotAllowed, BrokerError, Cloned, Closed, PeerError, ShuttingDown
from broker.transport.alarm import Alarm
from broker.transport.clock import IClock
from broker.transport.socket import ISocketChannel

#: A member's transports, as a node's settings name them.
TCP, UDP = "tcp", "udp"
_GATEWAY = "gateway "
_SEED = "seed "


class Dialler(Protocol):
    """Makes connections."""

    def dial(self, endpoint: Endpoint, transport: str) -> Deferred[ISocketChannel]:
        """To where another node listens by this transport."""

    def dial_text(self, endpoint: str) -> Deferred[ISocketChannel]:
        """To what an endpoint string says."""


@attrs.frozen
class MembershipSettings:
    """See the configuration's `[network]`."""

    network: str
    transport: str
    seeds: tuple[Endpoint, ...]
    gateways: tuple[str, ...]
    key: bytes | None = attrs.field(repr=False)
    rules: AdmissionRules


class Membership:
    """One node's way into its cluster, and its links to others."""

    log = Logger()

    def __init__(
        self,
        node: NodeDescriptor,
        settings: MembershipSettings,
        home: Home,
        dialler: Dialler,
        clock: IClock,
        wall_clock: Callable[[], int],
        rng: random.Random,
    ) -> None:
        self.node = node
        """As it describes itself."""
        self._settings = settings
        self._home = home
        self._dialler = dialler
        self._clock = clock
        self._wall_clock = wall_clock
        most = settings.rules.most_links.get(settings.transport, 0)
        self._joining = Joining(node.name, settings.seeds, rng)
        self._meshing = Meshing(most, rng)
        self._reception = Reception(settings.rules, self._situation)
        self._gateways = {_GATEWAY + text: text for text in settings.gateways}
        self._beside: dict[str, Endpoint] = {}
        self._seeds = settings.seeds
        self._members: Mapping[str, NodeDescriptor] | None = None
        self._keys: dict[str, str] = {}
        """By the name of a neighbour: the key under which it was dialled, if it was."""
        self._linked: set[str] = set()
        self._acquaintances = Acquaintances(node.name)
        self._alarm = Alarm(clock, self._timeout)
        self._complaints = Complaints(clock)
        self._stopped = False
        self.refused: dict[str, int] = {}
        """Greetings that came to nothing, by error code."""

    # ------------------------------------------------------------------ the node's calls

    def ask(self) -> None:
        """Become a member of whatever cluster there is."""
        self._join(self._joining.start(self._clock.seconds()))

    def must_leave(self) -> None:
        """There is no room for the node in its cluster."""
        self._join(self._joining.must_leave(self._clock.seconds()))

    def links_changed(self, members: int) -> None:
        """How many links to members of its cluster the node has now."""
        self._joining.links_changed(members, self._clock.seconds())
        self._arm()

    def found_seeds(self, seeds: Sequence[Endpoint]) -> None:
        """Discovery has found these."""
        known = dict.fromkeys((*self._settings.seeds, *seeds))
        self._join(self._joining.found(known, self._clock.seconds()))
        if self._joining.state is JoiningState.OUT and self._members is not None:
            # Who is a member by configuration asks nobody, but has to meet the others.
            self._seeds = tuple(known)
            self.aim(self._members)

    def aim(self, members: Mapping[str, NodeDescriptor]) -> None:
        """These are the members of the cluster: there are to be links to them, and to gateways."""
        self._members = members
        targets: dict[str, Target] = {}
        for key in self._gateways:
            targets[key] = Target(Endpoint(self._gateways[key], 0), GATEWAY, ())
        for key, endpoint in self._beside.items():
            targets[key] = Target(endpoint, GATEWAY, ())
        own = self.node.address
        known = {self._place(self.node)}
        now = self._clock.seconds()
        self._acquaintances.see(members, now)
        former = self._acquaintances.former(members)
        for name, node in [*sorted(members.items()), *former.items()]:
            listens = self._place(node)
            if name in members:
                known.add(listens)
            if name != own.node and listens is not None:
                targets[name] = Target(listens, MEMBER, own.unit, name)
        # A member that fell silent is on no map any more; where it is a seed it is looked for.
        for seed in self._seeds:
            if seed not in known:
                targets[_seed(seed)] = Target(seed, MEMBER, own.unit)
        linked = {key for each in self._linked for key in self._targets_of(each)}
        self._dial_all(self._meshing.aim(targets, now, linked))

    @property
    def former(self) -> Collection[str]:
        """Names of members that fell silent, and that may come back."""
        return self._acquaintances.former(self._members or {}).keys()

    def link_up(self, name: str) -> None:
        """There is a link to a node."""
        self._linked.add(name)
        now = self._clock.seconds()
        for key in self._targets_of(name):
            self._complaints.linked(key)
            self._dial_all(self._meshing.linked(key, now))

    def link_broken(self, name: str) -> None:
        """The connection of a link broke: another one is to take its place."""
        self._linked.discard(name)
        now = self._clock.seconds()
        for key in self._targets_of(name):
            self._dial_all(self._meshing.lost(key, now))

    def link_down(self, name: str) -> None:
        """There is none any more, or none came of a connection."""
        self.link_broken(name)
        self._keys.pop(name, None)

    def tell_slow(self, is_slow: bool) -> None:
        """Whether this machine is behind: then it dials fewer nodes at once (M7)."""
        self._meshing.is_slow = is_slow

    def stop(self) -> None:
        """Dial, and let in, nobody any more."""
        self._stopped = True
        self._alarm.set(None)

    # ------------------------------------------------------------------ who comes

    def connected(self, channel: ISocketChannel, transport: str) -> None:
        """Somebody has connected."""
        now = self._clock.seconds()
        if self._stopped or self._home.situation() is None:
            turn_away(channel, ShuttingDown("this node is in no cluster at the moment"))
            return
        busy = self._reception.begin(now)
        if busy is not None:
            self._count(busy)
            turn_away(channel, busy)
            return

        def judge(hello: NodeHello, _: bool) -> Admission | Refusal:
            if self._stopped or self._home.situation() is None:
                # It has left its cluster since the greeting began.
                return Refusal(ShuttingDown("this node is in no cluster at the moment"))
            now, wall_ms = self._clock.seconds(), self._wall_clock()
            return self._reception.judge(hello, host_of(channel), transport, now, wall_ms)

        def accepted(said: Accepted, channel: ISocketChannel) -> None:
            self._reception.over()
            self._home.linked(said, channel, transport, False)

        def refused(said: Refused) -> None:
            self._reception.over()
            self._count(said.error)
            self._complaints.came_to_nothing(channel.peer_description, said.error, said.by_peer)

        core = Answering(
            node=self.node,
            network=self._settings.network,
            key=self._settings.key,
            judge=judge,
        )
        Greeting(channel, core, self._clock, accepted, refused)

    # ------------------------------------------------------------------ whom it dials

    def _join(self, effects: Sequence[JoiningEffect]) -> None:
        if self._stopped:
            return
        for effect in effects:
            match effect:
                case Ask(endpoint):
                    self._dial(
                        self._dialler.dial(endpoint, self._settings.transport),
                        self._greeting(MEMBER, (), ""),
                        self._settings.transport,
                        partial(self._asked, endpoint),
                        lambda said: self._join(self._joining.refused(said, self._clock.seconds())),
                        lambda error: self._join(
                            self._joining.failed(error, self._clock.seconds())
                        ),
                    )
                case Joined(cluster, admitted):
                    self._home.joined(cluster, admitted)
                case Founded(cluster, beside):
                    self._beside = {f"{_GATEWAY}{beside.host}:{beside.port}": beside}
                    self._home.joined(cluster, 0)
                case NotYet():
                    self._complaints.not_yet(effect.asked, effect.error)
        self._arm()

    def _asked(self, endpoint: Endpoint, said: Accepted, channel: ISocketChannel) -> None:
        joined = self._joining.accepted(said, self._clock.seconds())
        if not joined and said.peer.address.unit != self.node.address.unit:
            channel.abort(Closed("this node is linked to its cluster again"))
            return
        self._complaints.joined()
        # What it learns of the cluster makes it aim at all members and seeds: here is one already.
        self._linked.add(said.peer.name)
        self._keys[said.peer.name] = _seed(endpoint)
        self._join(joined)
        self._home.linked(said, channel, self._settings.transport, True)

    def _dial_all(self, dials: Sequence[Dial]) -> None:
        if self._stopped:
            return
        for dial in dials:
            self._dial_target(dial)
        self._arm()

    def _dial_target(self, dial: Dial) -> None:
        key, target = dial.key, dial.target
        if key in self._gateways:
            transport = TCP
            connection = self._dialler.dial_text(self._gateways[key])
        else:
            # Between clusters nothing but TCP (issue 4, 4).
            transport = self._settings.transport if target.purpose == MEMBER else TCP
            connection = self._dialler.dial(target.endpoint, transport)

        whom = self._whom(dial)

        def accepted(said: Accepted, channel: ISocketChannel) -> None:
            self._keys[said.peer.name] = key
            self._home.linked(said, channel, transport, True)

        def failed(said: Refused | BrokerError) -> None:
            error = said.error if isinstance(said, Refused) else said
            if not self._stopped:
                self._complaints.no_link(key, whom, error)
            if isinstance(said, Refused):
                self._acquaintances.refused(target.name, said.error)
            self._dial_all(self._meshing.failed(key, self._clock.seconds()))

        core = self._greeting(target.purpose, target.cluster, target.name)
        self._dial(connection, core, transport, accepted, failed, failed)

    def _greeting(self, purpose: str, cluster: UnitPath, expected: str) -> Dialling:
        return Dialling(
            node=self.node,
            network=self._settings.network,
            key=self._settings.key,
            purpose=purpose,
            cluster=cluster,
            expected=expected,
        )

    def _dial(
        self,
        connection: Deferred[ISocketChannel],
        core: Dialling,
        transport: str,
        accepted: Callable[[Accepted, ISocketChannel], None],
        refused: Callable[[Refused], None],
        failed: Callable[[BrokerError], None],
    ) -> None:
        def not_welcome(said: Refused) -> None:
            self._count(said.error)
            if said.by_peer and isinstance(said.error, Cloned):
                self._home.cloned(said.error)
            refused(said)

        def greet(channel: ISocketChannel) -> None:
            host = host_of(channel)
            if core.purpose == MEMBER and not self._settings.rules.addresses(host):
                error = AddressNotAllowed(
                    f"by this node's settings no member may be at {host[:80]}"
                )
                channel.abort(error)
                not_welcome(Refused(error))
                return
            Greeting(channel, core, self._clock, accepted, not_welcome)

        def no_connection(failure: Failure) -> None:
            failed(not_connected(failure.value))

        connection.addCallbacks(greet, no_connection).addErrback(
            lambda failure: self.log.failure("a greeting failed", failure)
        )

    # ------------------------------------------------------------------ inside

    def _place(self, node: NodeDescriptor) -> Endpoint | None:
        """Where a node listens for the kind of links that this one makes."""
        return node.udp if self._settings.transport == UDP else node.tcp

    def _whom(self, dial: Dial) -> str:
        """A target as a person knows it."""
        key, target = dial.key, dial.target
        if key in self._gateways:
            return f'network.gateways "{self._gateways[key]}"'
        place = f"{target.endpoint.host}:{target.endpoint.port}"
        if target.name:
            return f"the member {target.name} at {place}"
        return f"{place} in another cluster" if target.purpose == GATEWAY else f"the seed {place}"

    def _targets_of(self, name: str) -> tuple[str, ...]:
        """The keys under which a node is dialled: a seed is a member by its name, too."""
        return tuple(dict.fromkeys((name, self._keys.get(name, name))))

    def _situation(self) -> Situation:
        situation = self._home.situation()
        assert situation is not None
        return situation

    def _count(self, error: BrokerError) -> None:
        if isinstance(error, PeerError):
            self.refused[error.code] = self.refused.get(error.code, 0) + 1

    def _timeout(self) -> None:
        now = self._clock.seconds()
        self._join(self._joining.handle_timeout(now))
        self._dial_all(self._meshing.handle_timeout(now))

    def _arm(self) -> None:
        if not self._stopped:
            times = (self._joining.next_timeout(), self._meshing.next_timeout())
            self._alarm.set(min((time for time in times if time is not None), default=None))


def _seed(place: Endpoint) -> str:
    return f"{_SEED}{place.host}:{place.port}"
