"""The gateway of each unit to ask next: its gateways take turns."""

from __future__ import annotations

from typing import Final

from broker.cluster.address import Address, UnitPath, is_within
from broker.cluster.node_messenger import NodeMessenger

#: To a unit, of a question whose answer decides that nothing is there: one of them may answer
#: falsely.
MOST_GATEWAYS: Final = 4


class GatewayRotation:
    """Alternates between the gateways of a unit, since one may be silent."""

    def __init__(self, messenger: NodeMessenger) -> None:
        self._messenger = messenger
        self._round = 0

    def choose_gateways(
        self, scope: UnitPath, most: int = 1
    ) -> list[tuple[Address | None, UnitPath]]:
        """Return the units beside this node's in `scope`, each with a reachable gateway or None.

        With `most` a unit comes once for each of so many gateways.
        """
        self._round += 1
        chosen: list[tuple[Address | None, UnitPath]] = []
        for unit, gateways in sorted(self._messenger.gateways_by_unit().items()):
            if is_within(unit, scope):
                reachable = [each for each in gateways if self._messenger.is_reachable(each)]
                first = self._round % len(reachable) if reachable else 0
                taken: list[Address | None] = [*reachable[first:], *reachable[:first]]
                chosen += [(gateway, unit) for gateway in taken[:most] or [None]]
        return chosen
