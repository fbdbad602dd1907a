"""Installed stacks: all that drop-ins in `twisted/plugins` offer."""

from __future__ import annotations

from functools import cache

from twisted.logger import Logger
from twisted.plugin import getPlugins
from zope.interface import Invalid
from zope.interface.verify import verifyObject

from broker.errors import AmbiguousStack, UnknownStack
from broker.transport.stacks.contract import IProtocolStack

_log = Logger()


@cache
def find_stacks() -> tuple[IProtocolStack, ...]:
    """Return all installed stacks, sorted by name; searched once in a process.

    Drop-ins that can not be imported, or lack the interface, are logged and ignored. Twisted also
    logs each folder where it can not write its cache (T38).
    """
    # One object may have several names.
    found = {id(stack): stack for stack in getPlugins(IProtocolStack)}
    return tuple(sorted(filter(_is_usable, found.values()), key=lambda stack: stack.name))


def find_stack(name: str) -> IProtocolStack:
    """Return the stack with a name. Raises `UnknownStack` or `AmbiguousStack`."""
    stacks = find_stacks()
    matches = [stack for stack in stacks if stack.name == name]
    if not matches:
        known = ", ".join(dict.fromkeys(stack.name for stack in stacks))
        raise UnknownStack(f"no stack {name!r} is installed; there are: {known or 'none'}")
    if len(matches) > 1:
        origins = " and ".join(sorted(map(_class_name, matches)))
        raise AmbiguousStack(f"the stack {name!r} is installed {len(matches)} times: by {origins}")
    return matches[0]


def _is_usable(stack: IProtocolStack) -> bool:
    try:
        verifyObject(IProtocolStack, stack)
        if not isinstance(stack.name, str):
            raise Invalid(f"its name is {stack.name!r}")
    except Invalid as wrong:
        _log.error(
            "the stack {origin} does not provide the interface and is ignored: {wrong}",
            origin=_class_name(stack),
            wrong=wrong,
        )
        return False
    return True


def _class_name(stack: IProtocolStack) -> str:
    kind = type(stack)
    return f"{kind.__module__}.{kind.__qualname__}"
