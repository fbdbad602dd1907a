"""Multicast along a tree over connected links (RCM R33)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker.transport.effects import Effect, SendDown
from broker.transport.message import Message
from broker.transport.multicast.bounds import Bounds
from broker.transport.multicast.route import ROOT_DEGREE, build_tree, split_route
from broker.transport.multicast.sharing_core import SharingCore, Spread
from broker.transport.multicast.wire import Body, Route, encode

#: Trees that are kept.
_MOST_TREES: Final = 64


class TreeCore(SharingCore):
    """The sender gives each body to few peers, with the route on which they pass it on.

    It builds the tree from its own views and those that its peers send. A site on the way that sees
    the next one otherwise does not pass the body on, and the sites behind it need repairs.
    """

    #: Peers that get the body from the sender itself.
    degree = ROOT_DEGREE

    def __init__(self, node: str, key: bytes, bounds: Bounds = Bounds()) -> None:  # noqa: B008
        super().__init__(node, key, bounds)
        self._trees: dict[tuple[str, ...], dict[str, Route]] = {}

    def spread_body(self, payload: bytes, counter: int, peers: Sequence[str]) -> Spread | None:
        routes = {name: route for name, route in self._find_tree(peers).items() if route}
        behind = [name for route in routes.values() for name, _ in route]
        return Spread(routes, behind) if behind else None

    def views_changed(self) -> None:
        self._trees.clear()

    def _find_tree(self, peers: Sequence[str]) -> dict[str, Route]:
        key = tuple(peers)
        if key not in self._trees:
            if len(self._trees) >= _MOST_TREES:
                self._trees.clear()
            views = {name: self.incoming[name].connected for name in peers}
            self._trees[key] = build_tree(self.node, peers, views, self.degree)
        return self._trees[key]

    def pass_on(self, source: str, body: Body) -> list[Effect]:
        effects: list[Effect] = []
        for name, route in split_route(body.route):
            if self.is_connected(name) and name not in self._full and name != source:
                packet = encode(Body(source, body.counter, list(route), body.payload))
                message = Message(packet, destinations=(name,))
                effects.append(SendDown([message], name))
        return effects
