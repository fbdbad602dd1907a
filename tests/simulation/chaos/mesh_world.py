"""A simulated network whose nodes carry some streams over a mesh, and the others as usual."""

from __future__ import annotations

from typing import Any, Final

from broker.config.stacks import DEFAULT_STACK, StackInstance
from broker.testing.datagram_network import DatagramFaults
from broker.testing.simulated_network import NetworkWorld
from plugins.dcp.options import DcpOptions
from plugins.dcp.stack import DcpLinkOptions

#: Streams of the mesh; `broker.testing.flights.STREAMS` has others beside them.
_PATTERN: Final = "asdi.zny.>"
_STACK: Final = "mesh"
_FIRST_PORT: Final = 9_000
_ROOTS: Final = 2
_FAULTS: Final = DatagramFaults(loss=0.1, jitter=0.005)


class MeshWorld(NetworkWorld):
    """The first two nodes are the roots."""

    def __init__(self, seed: int, **options: Any) -> None:
        super().__init__(seed, **options)
        self.set_transport_faults(_FAULTS)

    def add(self, name: str, cluster: str = "", /, *, start: bool = True, **settings: Any) -> None:
        super().add(name, cluster, start=False, **settings)
        number = self.names.index(name)
        # Some routers have no room for all others: the mesh has several levels.
        options = DcpOptions(
            udp=_address(number), roots=tuple(map(_address, range(_ROOTS))), children=3
        )
        stack = StackInstance(
            *(_STACK, "dcp"),
            feed=DEFAULT_STACK,
            options=options,
            link_options=DcpLinkOptions(),
        )
        self.set_stacks(name, {_PATTERN: stack})
        if start:
            self.start(name)

    @property
    def carried(self) -> int:
        """Events that the mesh has brought to running nodes since their last starts."""
        stacks = [
            stack
            for name in self.running
            if (transports := self[name].transports) is not None
            for stack in transports.snapshot()
        ]
        return sum(each["received"] for each in stacks if each["name"] == _STACK)


def _address(number: int) -> str:
    return f"127.0.0.1:{_FIRST_PORT + number}"
