"""Building a checked stack from a plug-in and settings."""

from __future__ import annotations

from collections.abc import Sequence

from broker.errors import ConfigurationError
from broker.transport.layer import ILayer, Property
from broker.transport.stack import Stack
from broker.transport.stacks.contract import IProtocolStack, StackSettings


def build_stack(
    plugin: IProtocolStack,
    settings: StackSettings,
    bottom: frozenset[Property] | None = None,
    faults: Sequence[ILayer] = (),
) -> Stack:
    """Return the stack of one link; `faults` are inserted below its own layers.

    `bottom` replaces the properties of the settings' transport.

    Raises `ConfigurationError` for invalid settings, `StackError` if the layers do not fit.
    """
    if settings.transport not in plugin.transports:
        supported = ", ".join(sorted(transport.value for transport in plugin.transports))
        raise ConfigurationError(
            f"the stack {plugin.name!r} does not run over {settings.transport.value}: "
            f"it supports {supported or 'none'}"
        )
    if bottom is None:
        bottom = settings.transport.properties
    return Stack(plugin.name, [*faults, *plugin.layers(settings)], bottom)
