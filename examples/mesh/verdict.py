"""The table at the end, and the number of errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

import attrs
from rich import box
from rich.table import Table

from broker.event.event_id import EventId
from examples.mesh.figures import LeafFigures
from examples.network.subscribers import Arrivals, Subscriber

NOTES: Final = (
    "pause: longest time between two arrivals, less that between their publications",
    "hidden: copies that a parent did not bring, while another one did",
    "NACK: events that a parent sent again on request, and that came by this only",
    "log: events from the log of their origin, over TCP; pages: requests for them",
)


@attrs.frozen
class Leaf:
    subscriber: Subscriber
    figures: LeafFigures

    @property
    def arrivals(self) -> Arrivals:
        return self.subscriber.arrivals

    def count_errors(self, published: Iterable[EventId]) -> int:
        arrivals = self.arrivals
        return arrivals.missing(published) + arrivals.duplicates + arrivals.out_of_order

    @property
    def parents_text(self) -> str:
        """Return the parents at the start and now."""
        figures = self.figures
        before, now = " ".join(figures.first_parents), " ".join(figures.parents)
        return before if before == now else f"{before} > {now}"


def longest_pause(arrivals: Arrivals, sent: Mapping[EventId, float]) -> float:
    """Return the longest time between two arrivals, less that between their publications."""
    times = [
        (time, sent[event]) for event, time in zip(arrivals.events, arrivals.times, strict=True)
    ]
    return max(
        (late[0] - early[0] - (late[1] - early[1]) for early, late in pairwise(times)), default=0.0
    )


def make_table(title: str, leaves: Sequence[Leaf], sent: Mapping[EventId, float]) -> Table:
    """`sent` has the publication time of each durable event."""
    table = Table(title=title, box=box.SIMPLE, pad_edge=False, padding=0)
    for heading in ("at", "parents"):
        table.add_column(heading, no_wrap=True)
    for heading in (
        *("arrived", "missing", "twice", "out of order", "pause ms"),
        *("hidden", "NACK", "log", "pages"),
    ):
        table.add_column(heading, justify="right")
    for leaf in leaves:
        arrivals, figures = leaf.arrivals, leaf.figures
        arrived = len(arrivals.events)
        recovered = max(0, arrived - arrivals.duplicates - figures.first)
        table.add_row(
            *(leaf.subscriber.node, leaf.parents_text),
            *map(str, (arrived, arrivals.missing(sent), arrivals.duplicates)),
            str(arrivals.out_of_order),
            f"{1e3 * longest_pause(arrivals, sent):.0f}",
            *map(str, (max(0, figures.hidden), figures.repaired, recovered, figures.pages)),
        )
    return table
