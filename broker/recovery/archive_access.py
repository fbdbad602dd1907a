"""What a node's recovery knows of its archive."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from broker.recovery.replays import Replays


@attrs.frozen
class ArchiveAccess:
    """The archive, as a node uses it."""

    replays: Replays
    flush_soon: Callable[[], object]
    """What is durable in the node's log now is to be archived at once."""
    patience: float
    """Seconds that the newest events of other nodes may take to be in it."""
