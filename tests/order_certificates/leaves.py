"""Leaves of random blocks."""

from __future__ import annotations

from random import Random

from broker.event.event_id import EventId
from broker.order_certificates.leaf import Leaf, digest_of


def make_leaf(number: int, stamp: int | None = None, site: str = "a", text: str = "") -> Leaf:
    document = f"<event>{site} {number} {text}</event>".encode()
    event_id = EventId(f"client-{site}", 1_000 + number, number, 7)
    return Leaf(
        number if stamp is None else stamp, site, site, 1, number, event_id, digest_of(document)
    )


def random_leaves(random: Random, count: int) -> list[Leaf]:
    """Return sorted leaves of three sites."""
    leaves = [
        make_leaf(number, random.randrange(256), random.choice("abc"))
        for number in range(1, count + 1)
    ]
    return sorted(leaves, key=lambda leaf: leaf.key)
