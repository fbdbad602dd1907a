"""Routed messages between parts of this node and other nodes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from broker.cluster.address import Address, UnitPath
from broker.cluster.network import Network
from broker.cluster.traffic.messages import RoutedMessage
from broker.event.flow import origin_of

_NUMBER_BYTES: Final = 7


class NodeMessenger:
    """Sends routed messages, and dispatches received ones. Undeliverable messages are dropped."""

    def __init__(self, network: Network, *, has_seeds: bool, has_members: bool) -> None:
        """The settings name nodes (`has_seeds`), or nodes of this cluster (`has_members`)."""
        self._network = network
        self._has_seeds = has_seeds
        self._has_members = has_members
        self._listeners: dict[type[RoutedMessage], Callable[[Any], object]] = {}
        network.driver.on_other_message = self._deliver

    @property
    def own_address(self) -> Address | None:
        """None while the node is in no cluster."""
        state = self._network.state
        return None if state is None else state.address

    def next_request_number(self) -> int:
        """Return a random number: only nodes on the way of a request can answer in the name of the
        one that is asked."""
        return int.from_bytes(os.urandom(_NUMBER_BYTES), "big")

    def add_listener(self, kind: type[RoutedMessage], listener: Callable[[Any], object]) -> None:
        self._listeners[kind] = listener

    def send(self, message: RoutedMessage, attempt: int = 0) -> None:
        """Further attempts to send the same take other routes."""
        self._network.driver.send_routed(message, attempt)

    def is_reachable(self, address: Address) -> bool:
        state = self._network.state
        if state is None:
            return False
        if address.unit == state.address.unit:
            return address.node in state.map.reachable()
        return state.map.next_hop(address) is not None

    @property
    def is_cut_off(self) -> bool:
        """True if other nodes exist or existed, and no link is up."""
        log = self._network.event_log
        if not self._has_seeds and all(map(log.flows.is_own, log.coverage)):
            return False
        return not any(each.up for each in self._network.neighbours)

    @property
    def is_missing_members(self) -> bool:
        """True if the settings name other members, and none is known."""
        return self._has_members and not self.list_members()

    def is_cleared(self, address: Address, rank: int) -> bool:
        return self._network.is_cleared(address, rank)

    def supports_version(self, address: Address, version: int) -> bool:
        state = self._network.state
        if state is None or address.unit != state.address.unit:
            return False
        member = state.map.members().get(address.node)
        return member is not None and version in member.versions

    def has_earlier_protocol(self, address: Address, version: int) -> bool:
        """Return True for a known member of the cluster that does not speak a version."""
        state = self._network.state
        if state is None or address.unit != state.address.unit:
            return False
        member = state.map.members().get(address.node)
        return member is not None and version not in member.versions

    def has_other_log(self, address: Address, origin: str) -> bool:
        """Return True for a known member of the cluster with another log than that of an origin."""
        state = self._network.state
        return state is not None and state.has_other_log(address, origin)

    def has_key(self, address: Address, key: bytes) -> bool:
        """Return True for a known member of the cluster to which a public key belongs."""
        state = self._network.state
        if state is None or address.unit != state.address.unit:
            return False
        return state.map.key_of(address.node) == key

    def next_hop(self, address: Address, attempt: int) -> str | None:
        """Return the neighbour over which an attempt is made."""
        state = self._network.state
        return None if state is None else state.map.next_hop(address, attempt=attempt)

    def record_unanswered(self, neighbour: str | None) -> None:
        """Count a request without a true answer, which was sent over a neighbour."""
        if self._network.traffic is not None:
            self._network.traffic.counts.record_unanswered(neighbour)

    def list_members(self) -> list[Address]:
        """Return the other known members, reachable or not."""
        state = self._network.state
        if state is None:
            return []
        own = state.address
        return [Address(own.unit, name) for name in state.map.members() if name != own.node]

    def list_absent_members(self) -> list[Address]:
        state = self._network.state
        if state is None:
            return []
        return [
            Address(state.address.unit, name) for name in self._network.membership.absent_members
        ]

    def gateways_by_unit(self) -> Mapping[UnitPath, Sequence[Address]]:
        state = self._network.state
        return {} if state is None else state.map.gateways_by_unit()

    def find_sources(self, origin: str) -> list[Address]:
        """Return reachable nodes with events of an origin: its own, or ones that sent them."""
        traffic = self._network.traffic
        if traffic is None:
            return []
        found = traffic.receiver.nodes_of(origin)
        near = self.node_of_origin(origin)
        if near is not None:
            found = [near, *(each for each in found if each != near)]
        return [each for each in found if each != self.own_address and self.is_reachable(each)]

    def list_unreachable_origins(self) -> list[str]:
        """Return logged origins of other nodes without a reachable source."""
        log = self._network.event_log
        others = [each for each in log.coverage if not log.flows.is_own(each)]
        return [each for each in others if not self.find_sources(each)]

    def node_of_origin(self, origin: str) -> Address | None:
        state = self._network.state
        return None if state is None else state.map.node_of_origin(origin_of(origin))

    def _deliver(self, message: RoutedMessage) -> None:
        listener = self._listeners.get(type(message))
        if listener is not None:
            listener(message)
