"""Addresses of clients, which have links of their own (DCP D5)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple


class LeafPeer(NamedTuple):
    """A client that has dialled, told apart from a node with the same address."""

    address: Hashable
