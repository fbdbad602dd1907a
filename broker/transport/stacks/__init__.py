"""Protocol stacks as plug-ins: their interface, and finding the installed ones."""

from broker.transport.stacks.builder import build_stack
from broker.transport.stacks.contract import IProtocolStack, StackSettings, Transport
from broker.transport.stacks.options import read_options
from broker.transport.stacks.registry import find_stack, find_stacks

__all__ = [
    "IProtocolStack",
    "StackSettings",
    "Transport",
    "build_stack",
    "find_stacks",
    "read_options",
    "find_stack",
]
