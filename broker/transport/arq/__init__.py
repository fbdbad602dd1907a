"""Packets of any size, in order and once, over datagrams that get lost (Mspaces M6, M9, M10).

One connection (`connection_core`) and one group (`group_core`) share how packets are cut into
datagrams (`cutting`), sealed (`seal`, `wire`), put in order (`receiver`) and paced (`pace`).
`docs/protocols/arq.md` describes the protocol.
"""

from broker.transport.arq.settings import ArqSettings

__all__ = ["ArqSettings"]
