"""Protocol stacks as plug-ins: their interfaces, and finding the installed ones."""

from broker.transport.stacks.builder import build_stack
from broker.transport.stacks.contract import (
    GroupAddress,
    IFanOutStack,
    INamedPlugin,
    IProtocolStack,
    IReconnectingStack,
    IStackPlugin,
    StackSettings,
    Transport,
)
from broker.transport.stacks.reconnection_policy import ReconnectionPolicy
from broker.transport.stacks.registry import (
    class_name,
    find_plugin,
    find_plugins,
    find_stack,
    find_stacks,
)

__all__ = [
    "GroupAddress",
    "IFanOutStack",
    "INamedPlugin",
    "IProtocolStack",
    "IReconnectingStack",
    "IStackPlugin",
    "ReconnectionPolicy",
    "StackSettings",
    "Transport",
    "build_stack",
    "class_name",
    "find_plugin",
    "find_plugins",
    "find_stack",
    "find_stacks",
]
