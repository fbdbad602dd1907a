"""A batch sorted by shapes: what need not be parsed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from broker.matching.shape.cache import LENGTHS, ShapeCache
from broker.matching.shape.shape import Shape


class Recognised:
    """Documents of one shape: their places in the batch, ascending, and their slots' values."""

    __slots__ = ("places", "shape", "values")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.places: list[int] = []
        self.values: list[tuple[bytes, ...]] = []


def recognised(
    shapes: ShapeCache, documents: Sequence[bytes], places: Iterable[int]
) -> tuple[list[Recognised], list[int]]:
    """Of the documents at `places`, ascending, those of known shapes, and the places of others."""
    groups: dict[Shape, Recognised] = {}
    others: list[int] = []
    likely = shapes.likely
    for place in places:
        document = documents[place]
        # Documents of equal length are most often of one shape, and then one look is enough.
        shape = likely[len(document) % LENGTHS]
        values = None if shape is None else shape.values(document)
        if shape is None or values is None:
            found = shapes.recognise(document, shape)
            if found is None:
                others.append(place)
                continue
            shape, values = found
        group = groups.get(shape)
        if group is None:
            group = groups[shape] = Recognised(shape)
        group.places.append(place)
        group.values.append(values)
    for group in groups.values():
        shapes.use(group.shape, len(group.places))
    return list(groups.values()), others
