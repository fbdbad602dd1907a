"""File descriptors of the process."""

from __future__ import annotations

import resource
from typing import Final

#: For the log, the archive, links of nodes, child processes, DTD fetches and look-ups of names.
RESERVED: Final = 128
#: More are of no use, and make the start of child processes slower.
MAX_DESCRIPTORS: Final = 65_536


def reserve_descriptors() -> int:
    """Raise the soft limit towards the hard one; return the descriptors left for clients.

    At least one: then clients share the reserve.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    return max(1, soft - RESERVED)
