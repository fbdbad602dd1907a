"""Stacks of layers, and the check that each layer finds its required properties below it."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from broker.errors import StackError
from broker.transport.layer import ILayer, ILayerCore, Property

BOTTOM = "the socket channel"


def check_layers(layers: Sequence[ILayer], bottom: frozenset[Property]) -> frozenset[Property]:
    """Return the properties above `layers` (bottom up) on a socket channel with those of `bottom`.

    Raises `StackError` naming the layer with the unmet requirement, and the layer that breaks it.
    """
    held = bottom
    for height, layer in enumerate(layers):
        missing = layer.requires - held
        if missing:
            missing_property = min(missing, key=lambda each: each.value)
            raise StackError(_error_text(layers[:height], layer, missing_property))
        held = (held - layer.breaks) | layer.provides
    return held


def _error_text(below: Sequence[ILayer], layer: ILayer, missing_property: Property) -> str:
    required = f"layer {layer.name!r} requires {missing_property.value}"
    for lower in reversed(below):
        if missing_property in lower.breaks:
            return f"{required}, which layer {lower.name!r} breaks"
    below_name = f"layer {below[-1].name!r}" if below else BOTTOM
    return f"{required}, which {below_name} below it does not provide"


def _as_tuple(layers: Sequence[ILayer]) -> tuple[ILayer, ...]:
    return tuple(layers)


@attrs.frozen
class Stack:
    """A named list of layers, bottom up. It creates cores and holds no state.

    Raises `StackError` if the layers do not fit.
    """

    name: str
    layers: tuple[ILayer, ...] = attrs.field(converter=_as_tuple)
    bottom: frozenset[Property]
    provides: frozenset[Property] = attrs.field(init=False)

    @provides.default
    def _check(self) -> frozenset[Property]:
        return check_layers(self.layers, self.bottom)

    def create_cores(self) -> list[ILayerCore]:
        return [layer.create_core() for layer in self.layers]
