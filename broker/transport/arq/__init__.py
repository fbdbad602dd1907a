"""ARQ: packets of any size, in order and once, over lossy datagrams (Mspaces M6, M9, M10).

One connection (`connection_core`) and one multicast group (`group_core`) share fragmentation
(`fragmentation`), authentication (`mac`, `wire`), ordering (`receive_window`) and pacing (`pacer`).
`docs/protocols/arq.md` describes the protocol.
"""

from broker.transport.arq.settings import ArqSettings

__all__ = ["ArqSettings"]
