"""Stacks of layers, and the check that each layer finds its required properties below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import attrs

from broker.errors import StackError
from broker.transport.layer import (
    ILayer,
    ILayerCore,
    ILinkCore,
    ILinkLayer,
    LinkPassThrough,
    Property,
)

BOTTOM = "the socket channel"


def check_layers(layers: Sequence[ILayer], bottom: frozenset[Property]) -> frozenset[Property]:
    """Return the properties above `layers` (bottom up) on a socket channel with those of `bottom`.

    Raises `StackError` naming the layer with the unmet requirement, and the layer that breaks it,
    or the layer of a link that stands above one of all links.
    """
    held = bottom
    for height, layer in enumerate(layers):
        if height and is_of_link(layer) and not is_of_link(layers[height - 1]):
            raise StackError(
                f"layer {layer.name!r} is a layer of one link, and layer "
                f"{layers[height - 1].name!r} below it is not"
            )
        missing = layer.requires - held
        if missing:
            missing_property = min(missing, key=lambda each: each.value)
            raise StackError(_error_text(layers[:height], layer, missing_property))
        held = (held - layer.breaks) | layer.provides
    return held


def is_of_link(layer: ILayer) -> bool:
    return bool(ILinkLayer.providedBy(layer))


def create_link_cores(layers: Sequence[ILayer]) -> tuple[ILinkCore, ...]:
    """Return new cores of the layers of a link, for one peer; at least one."""
    cores = tuple(cast(ILinkCore, layer.create_core()) for layer in layers if is_of_link(layer))
    return cores or (LinkPassThrough(),)


def create_upper_cores(layers: Sequence[ILayer]) -> tuple[ILayerCore, ...]:
    """Return new cores of the layers above the links."""
    return tuple(cast(ILayerCore, layer.create_core()) for layer in layers if not is_of_link(layer))


def upper_names(layers: Sequence[ILayer]) -> list[str]:
    """Return the names of the layers above the links."""
    return [layer.name for layer in layers if not is_of_link(layer)]


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
