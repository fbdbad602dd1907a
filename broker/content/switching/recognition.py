"""A batch sorted by shapes: what need not be parsed."""

from __future__ import annotations

from collections.abc import Sequence

from broker.content.shape.cache import ShapeCache
from broker.content.shape.shape import Shape


class Recognised:
    """Documents of one shape: their places in the batch, ascending, and their slots' values."""

    __slots__ = ("places", "shape", "values")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.places: list[int] = []
        self.values: list[tuple[bytes, ...]] = []


def recognised(
    shapes: ShapeCache, documents: Sequence[bytes]
) -> tuple[list[Recognised], list[int]]:
    """The documents of known shapes, and the places of all others, which must be parsed."""
    groups: dict[Shape, Recognised] = {}
    others: list[int] = []
    run = None
    for place, document in enumerate(documents):
        # A document is most often of the shape of the one before it.
        values = None if run is None else run.shape.values(document)
        if run is None or values is None:
            found = shapes.recognise(document, None if run is None else run.shape)
            if found is None:
                others.append(place)
                continue
            shape, values = found
            run = groups.get(shape)
            if run is None:
                run = groups[shape] = Recognised(shape)
        else:
            run.shape.hits += 1
        run.places.append(place)
        run.values.append(values)
    return list(groups.values()), others
