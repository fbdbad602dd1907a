"""The gateway of each unit to ask next: its gateways take turns."""

from __future__ import annotations

from broker.cluster.address import Address, UnitPath, is_within
from broker.cluster.node_messenger import NodeMessenger


class GatewayRotation:
    """Alternates between the gateways of a unit, since one may be silent."""

    def __init__(self, messenger: NodeMessenger) -> None:
        self._messenger = messenger
        self._round = 0

    def choose_gateways(self, scope: UnitPath) -> list[tuple[Address | None, UnitPath]]:
        """Return the units beside this node's in `scope`, each with a reachable gateway or None."""
        self._round += 1
        chosen: list[tuple[Address | None, UnitPath]] = []
        for unit, gateways in sorted(self._messenger.gateways_by_unit().items()):
            if is_within(unit, scope):
                reachable = [each for each in gateways if self._messenger.is_reachable(each)]
                gateway = reachable[self._round % len(reachable)] if reachable else None
                chosen.append((gateway, unit))
        return chosen
