"""From a plug-in and settings to a stack that is known to fit."""

from __future__ import annotations

from collections.abc import Sequence

from broker.errors import ConfigurationError
from broker.transport.layer import ILayer, Property
from broker.transport.stack import Stack
from broker.transport.stacks.contract import IProtocolStack, StackSettings


def build_stack(
    plugin: IProtocolStack,
    settings: StackSettings,
    bottom: frozenset[Property],
    faults: Sequence[ILayer] = (),
) -> Stack:
    """The stack of one link, on a socket channel with the properties `bottom`.

    `faults` go between that and the stack's own layers. Raises `ConfigurationError` for settings
    that can not be, `StackError` if the layers do not fit.
    """
    if settings.transport not in plugin.transports:
        taken = ", ".join(sorted(transport.value for transport in plugin.transports))
        raise ConfigurationError(
            f"the stack {plugin.name!r} does not run over {settings.transport.value}: "
            f"it takes {taken or 'none'}"
        )
    plugin.check(settings)
    return Stack(plugin.name, [*faults, *plugin.layers(settings)], bottom)
