"""Stacks as plug-ins: the contract of one, and finding those that are installed."""

from broker.channel.stacks.building import build
from broker.channel.stacks.contract import IProtocolStack, StackSettings, Transport
from broker.channel.stacks.finding import find_stacks, stack_named
from broker.channel.stacks.options import read_options

__all__ = [
    "IProtocolStack",
    "StackSettings",
    "Transport",
    "build",
    "find_stacks",
    "read_options",
    "stack_named",
]
