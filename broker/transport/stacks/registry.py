"""Which stacks are installed: all that drop-ins in `twisted/plugins` offer, whoever wrote them."""

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
    """All stacks that are installed, by name; looked for once in the life of a process.

    A drop-in that can not be imported is reported by `twisted.plugin`, with its traceback; one
    whose stack does not keep the contract is reported here. The others work. Twisted also notes
    each folder where it can not write its cache (T38): that costs time at the start, no more. As
    all of that would be said again by another search, there is none.
    """
    # One object may be found by several names.
    found = {id(stack): stack for stack in getPlugins(IProtocolStack)}
    return tuple(sorted(filter(_is_usable, found.values()), key=lambda stack: stack.name))


def find_stack(name: str) -> IProtocolStack:
    """The stack that is called `name`.

    Raises `UnknownStack`, which lists those there are; `AmbiguousStack` if there are several.
    """
    stacks = find_stacks()
    named = [stack for stack in stacks if stack.name == name]
    if not named:
        known = ", ".join(dict.fromkeys(stack.name for stack in stacks))
        raise UnknownStack(f"no stack {name!r} is installed; there are: {known or 'none'}")
    if len(named) > 1:
        origins = " and ".join(sorted(map(_class_name, named)))
        raise AmbiguousStack(f"the stack {name!r} is installed {len(named)} times: by {origins}")
    return named[0]


def _is_usable(stack: IProtocolStack) -> bool:
    try:
        verifyObject(IProtocolStack, stack)
        if not isinstance(stack.name, str):
            raise Invalid(f"its name is {stack.name!r}")
    except Invalid as wrong:
        _log.error(
            "a stack of {origin} does not keep the contract and is left out: {wrong}",
            origin=_class_name(stack),
            wrong=wrong,
        )
        return False
    return True


def _class_name(stack: IProtocolStack) -> str:
    kind = type(stack)
    return f"{kind.__module__}.{kind.__qualname__}"
