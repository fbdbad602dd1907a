"""One process of a site: the link stack `rcm` to all others, and the core of an order above it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from zope.interface import implementer

from benchmarks.sites.order_end import ClockOwner, OrderEnd
from benchmarks.sites.record import Delivery, Status
from broker.cluster.descriptor import Endpoint
from broker.cluster.meshing import Dial, Meshing, Target
from broker.errors import NotConnected, ProtocolError
from broker.testing.killable import KillableClock
from broker.transport.core_runner import CoreRunner
from broker.transport.driver import StackDriver
from broker.transport.effects import Failed
from broker.transport.message import Message, Peer
from broker.transport.monitor import ILinkOwner
from broker.transport.order import VARIANTS, Deliver, OrderEffect, Send, Suspect
from broker.transport.order import Message as OrderMessage
from broker.transport.socket import ISocketChannel
from broker.transport.stack import Stack
from broker.transport.stack_receiver import IStackReceiver
from broker.transport.stacks import StackSettings, build_stack
from broker.transport.view import NEGOTIATING, LinkState, View
from plugins.rcm.stack import rcm_links

if TYPE_CHECKING:
    from benchmarks.sites.group import AnyGroup

_MOST_LINKS = 64


@implementer(IStackReceiver)
class Site:
    """The smaller name of a pair dials, as the policy of the link stack says."""

    def __init__(self, group: AnyGroup, name: str, incarnation: int, floor: int) -> None:
        setting = group.setting
        variant = VARIANTS[setting.variant]
        core = variant.create_core(name, incarnation, setting.order, floor)
        self.name = name
        self.states = dict.fromkeys(
            (each for each in setting.sites if each != name), LinkState.DISCONNECTED
        )
        self._group = group
        self._record = group.record
        self._incarnation = incarnation
        self._clock = KillableClock(group.clock)
        self.end = OrderEnd(core, variant.create_codec(setting.sites), group.read_site_clock)
        self._runner: CoreRunner[OrderEffect] = CoreRunner(self._clock, self._apply, self.end)
        self._meshing = Meshing(
            _MOST_LINKS, Random(name), rcm_links.reconnection_policy(setting.links)
        )
        self._dialler: CoreRunner[Dial] = CoreRunner(self._clock, self._dial, self._meshing)
        self._dials: dict[str, Deferred[ISocketChannel]] = {}
        bottom = self._build_stack(None)
        self.driver = StackDriver(bottom.layers, self._clock, self, bottom.bottom, self._fail)
        for peer in self.states:
            owner = ClockOwner(self.end, peer, self._connected)
            self.driver.join(peer, self._build_stack(owner))
        self._port = group.network.listen(name, self._accept)
        targets = {peer: Target(Endpoint(peer, 0), "", ()) for peer in self.states if name < peer}
        self._dialler.apply_effects(self._meshing.set_targets(targets, group.clock.seconds()))

    def _build_stack(self, owner: ILinkOwner | None) -> Stack:
        return build_stack(
            rcm_links,
            StackSettings(
                incarnation=self._incarnation, options=self._group.setting.links, owner=owner
            ),
        )

    def kill(self) -> int:
        """End the process. Return what it has stored."""
        self._clock.kill()
        self._port.stop_listening()
        return self.end.core.floor

    def publish(self, payload: bytes) -> None:
        """Stamp a message, and send it after its commit."""
        self.end.stamp(self._clock.seconds())
        commit = self._group.setting.commit
        if commit:
            self._clock.callLater(commit, self._runner.call, self.end.release, payload)
        else:
            self._runner.call(self.end.release, payload)

    # ----------------------------------------------------------------- of the links

    def messages_received(self, peer: Peer, messages: Sequence[bytes]) -> None:
        assert isinstance(peer, str)
        try:
            self._runner.call(self.end.receive, peer, messages)
        except ProtocolError as error:
            self._fail(error)
        self.driver.consumed(peer, len(messages))

    def view_changed(self, peer: Peer, view: View) -> None:
        assert isinstance(peer, str)
        # The owner of the link reports a connection.
        if view.state is not LinkState.CONNECTED and view.reason != NEGOTIATING:
            self._set_state(peer, view.state, view.reason)
            self._runner.call(self.end.disconnect, peer, view.state)
        if not self.driver.links[peer].is_attached:
            self._dialler.call(self._meshing.link_down, peer)

    def writable_changed(self, peer: Peer, writable: bool) -> None:
        pass

    def _connected(self, peer: str, effects: Sequence[OrderEffect]) -> None:
        self._set_state(peer, LinkState.CONNECTED, "")
        self._runner.apply_effects(effects)

    def _set_state(self, peer: str, state: LinkState, reason: str) -> None:
        if self.states[peer] is not state:
            self.states[peer] = state
            now = self._clock.seconds()
            self._record.statuses.append(Status(now, self.name, peer, state, reason))

    # ----------------------------------------------------------------- of the order

    def _apply(self, effect: OrderEffect) -> None:
        now = self._clock.seconds()
        match effect:
            case Send(packets, sites):
                message = Message(
                    self.end.encode(packets),
                    destinations=tuple(self.states) if sites is None else sites,
                )
                for packet in packets:
                    if isinstance(packet, OrderMessage):
                        self._record.sent[packet.id] = now
                self.driver.send([message])
            case Deliver(message, _, late):
                sent_at = self._record.sent[message.id]
                delivery = Delivery(now, message.id, now - sent_at, late is not None)
                self._record.deliveries[self.name].append(delivery)
            case Suspect(site, reason):
                self._set_state(site, LinkState.SUSPECTED, reason)
                self.driver.suspect(site, reason)
            case Failed(error):
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._record.errors.append(f"{self.name}: {error}")

    # ----------------------------------------------------------------- of connections

    def _accept(self, channel: ISocketChannel) -> None:
        self._attach(channel.peer_description, channel)

    def _attach(self, peer: str, channel: ISocketChannel) -> None:
        self.driver.attach(peer, channel)
        channel.resume()

    def _dial(self, dial: Dial) -> None:
        peer = dial.key
        earlier = self._dials.pop(peer, None)
        if earlier is not None:
            earlier.cancel()
        attempt = self._dials[peer] = self._group.network.connect(peer, self.name)
        attempt.addCallbacks(
            partial(self._dialled, peer, attempt), partial(self._dial_failed, peer, attempt)
        )

    def _dialled(
        self, peer: str, attempt: Deferred[ISocketChannel], channel: ISocketChannel
    ) -> None:
        if not self._clock.is_alive:
            channel.abort(NotConnected("the process is dead"))
            return
        self._dials.pop(peer, None)
        self._attach(peer, channel)
        self._dialler.call(self._meshing.link_up, peer)

    def _dial_failed(self, peer: str, attempt: Deferred[ISocketChannel], _: Failure) -> None:
        if self._dials.get(peer) is attempt and self._clock.is_alive:
            del self._dials[peer]
            self._dialler.call(self._meshing.dial_failed, peer)
