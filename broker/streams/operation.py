"""Stream transports that administrators inspect and change, at each of their nodes."""

from __future__ import annotations

from collections.abc import Mapping

from zope.interface import Interface


class IOperatedTransport(Interface):
    """A transport that an administrator operates while it runs (`xmlbroker mesh`).

    The node that was asked passes an operation on to the other nodes with an instance of the name.
    """

    def operate(action: str) -> Mapping[str, object]:
        """Carry out an action at this node, and return the state after it as plain values, in at
        most 60 KiB of msgpack.

        The action `show` changes nothing. Others may go on after the return; a repeated one has no
        further effect until then. Raises `BrokerError`: an unknown action with `BadName`.
        """
