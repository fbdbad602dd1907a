"""ARQ: packets of any size, in order and once, over lossy datagrams (Mspaces M6, M9, M10).

`docs/protocols/arq.md` describes the protocol.
"""

from broker.transport.arq.settings import ArqSettings

__all__ = ["ArqSettings"]
