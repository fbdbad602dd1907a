"""Do these layers fit: each must find below it what it requires."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from broker.errors import StackError
from broker.transport.layer import ILayer, ILayerCore, Property

#: What the socket channel at the bottom is called in messages.
BOTTOM = "the socket channel"


def check_layers(layers: Sequence[ILayer], bottom: frozenset[Property]) -> frozenset[Property]:
    """The properties that hold above `layers` (bottom up), given those of the socket channel.

    Raises `StackError` naming the layer that requires a property, and the nearest one below it
    that breaks it; where none does, the one right below, which does not provide it.
    """
    held = bottom
    for height, layer in enumerate(layers):
        missing = layer.requires - held
        if missing:
            # Sorted, so that the same mistake always reads the same.
            wanted = min(missing, key=lambda each: each.value)
            raise StackError(_error_text(layers[:height], layer, wanted))
        held = (held - layer.breaks) | layer.provides
    return held


def _error_text(below: Sequence[ILayer], layer: ILayer, wanted: Property) -> str:
    for lower in reversed(below):
        if wanted in lower.breaks:
            return (
                f"layer {layer.name!r} requires {wanted.value}, which layer {lower.name!r} breaks"
            )
    lacking = f"layer {below[-1].name!r}" if below else BOTTOM
    return (
        f"layer {layer.name!r} requires {wanted.value}, which {lacking} below it does not provide"
    )


def _as_tuple(layers: Sequence[ILayer]) -> tuple[ILayer, ...]:
    return tuple(layers)


@attrs.frozen
class Stack:
    """A named pile of layers that fit, bottom up; it holds no state, and creates cores.

    Raises `StackError` when it is built and does not fit.
    """

    name: str
    layers: tuple[ILayer, ...] = attrs.field(converter=_as_tuple)
    bottom: frozenset[Property]
    provides: frozenset[Property] = attrs.field(init=False)

    @provides.default
    def _check(self) -> frozenset[Property]:
        return check_layers(self.layers, self.bottom)

    def create_cores(self) -> list[ILayerCore]:
        """A new core of each layer, bottom up."""
        return [layer.create_core() for layer in self.layers]
