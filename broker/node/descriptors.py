"""File descriptors of the process."""

from __future__ import annotations

import resource
from typing import Final

from broker.cluster.acceptor import MOST_HANDSHAKES
from broker.config import Settings

#: For the log, the archive, child processes, DTD fetches and look-ups of names.
RESERVED: Final = 128
#: More are of no use, and make the start of child processes slower.
MAX_DESCRIPTORS: Final = 65_536
#: Of `metrics.endpoint`.
METRICS_CONNECTIONS: Final = 64
#: Of an input: the connection with its process, and the pipes of its output.
INPUT_DESCRIPTORS: Final = 3


def count_other_connections(settings: Settings) -> int:
    """Return the bound of connections that are not of clients: handshakes and links of other nodes,
    those with processes of inputs, and requests for metrics."""
    network = settings.network
    others = METRICS_CONNECTIONS if settings.metrics.endpoint else 0
    others += INPUT_DESCRIPTORS * len(settings.inputs)
    if network.is_standalone:
        return others
    instances = 1 + sum(stack.has_own_links for stack in settings.stacks)
    return others + MOST_HANDSHAKES + instances * network.max_tcp_links


def reserve_descriptors(other_connections: int) -> int:
    """Raise the soft limit towards the hard one; return the descriptors left for clients.

    `other_connections` are reserved, beside the reserve for the log and the rest. At least one is
    left for clients, who then share the reserve.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    return max(1, soft - RESERVED - other_connections)
