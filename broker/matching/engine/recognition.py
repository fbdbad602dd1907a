"""A batch sorted by shapes: what need not be parsed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from broker.matching.shape.cache import LENGTH_CLASSES, ShapeCache
from broker.matching.shape.shape import Shape


class RecognisedGroup:
    """Documents of one shape: their places in the batch, ascending, and their slots' values."""

    __slots__ = ("places", "shape", "values")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.places: list[int] = []
        self.values: list[tuple[bytes, ...]] = []


def recognise_documents(
    shapes: ShapeCache, documents: Sequence[bytes], places: Iterable[int]
) -> tuple[list[RecognisedGroup], list[int]]:
    """Of the documents at `places`, ascending, those of known shapes, and the places of others."""
    groups: dict[Shape, RecognisedGroup] = {}
    others: list[int] = []
    likely = shapes.likely_shapes
    for place in places:
        document = documents[place]
        # Documents of equal length are most often of one shape, and then one look is enough.
        shape = likely[len(document) % LENGTH_CLASSES]
        values = None if shape is None else shape.extract_values(document)
        if shape is None or values is None:
            found = shapes.recognise(document, shape)
            if found is None:
                others.append(place)
                continue
            shape, values = found
        group = groups.get(shape)
        if group is None:
            group = groups[shape] = RecognisedGroup(shape)
        group.places.append(place)
        group.values.append(values)
    for group in groups.values():
        shapes.record_use(group.shape, len(group.places))
    return list(groups.values()), others
