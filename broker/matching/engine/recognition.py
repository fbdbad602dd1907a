"""Recognition of a batch's documents by their shapes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from broker.matching.shape.cache import LENGTH_CLASSES, ShapeCache
from broker.matching.shape.shape import Shape


class RecognisedGroup:
    """Documents of one shape: their indexes in the batch, ascending, and their slot values."""

    __slots__ = ("places", "shape", "values")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.places: list[int] = []
        self.values: list[tuple[bytes, ...]] = []


def recognise_documents(
    shapes: ShapeCache, documents: Sequence[bytes], indexes: Iterable[int]
) -> tuple[list[RecognisedGroup], list[int]]:
    """Group the documents at `indexes` (ascending) by shape; return the other indexes too."""
    groups: dict[Shape, RecognisedGroup] = {}
    others: list[int] = []
    likely = shapes.likely_shapes
    for index in indexes:
        document = documents[index]
        # Documents of equal length usually have one shape, so one comparison is enough.
        shape = likely[len(document) % LENGTH_CLASSES]
        values = None if shape is None else shape.extract_values(document)
        if shape is None or values is None:
            result = shapes.recognise(document, shape)
            if result is None:
                others.append(index)
                continue
            shape, values = result
        group = groups.get(shape)
        if group is None:
            group = groups[shape] = RecognisedGroup(shape)
        group.places.append(index)
        group.values.append(values)
    for group in groups.values():
        shapes.record_use(group.shape, len(group.places))
    return list(groups.values()), others
