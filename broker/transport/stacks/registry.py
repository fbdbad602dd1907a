"""Installed plug-ins: all that drop-ins in `twisted/plugins` offer."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from typing import TypeVar

from twisted.logger import Logger
from twisted.plugin import getPlugins
from zope.interface import Invalid
from zope.interface.verify import verifyObject

from broker.errors import AmbiguousStack, UnknownStack
from broker.transport.stacks.contract import INamedPlugin, IProtocolStack, IStackPlugin

P = TypeVar("P", bound=INamedPlugin)

_log = Logger()


@cache
def find_plugins(kind: type[P]) -> tuple[P, ...]:
    """Return all installed plug-ins that provide the interface `kind`, sorted by name.

    They are searched once in a process. Drop-ins that can not be imported, or lack a part of the
    interface, are logged and ignored. Twisted also logs each folder where it can not write its
    cache (T38).
    """
    # One object may have several names.
    found = {id(plugin): plugin for plugin in getPlugins(kind)}
    usable = [plugin for plugin in found.values() if _is_usable(kind, plugin)]
    return tuple(sorted(usable, key=lambda plugin: plugin.name))


def find_plugin(kind: type[P], name: str, noun: str = "stack") -> P:
    """Return the plug-in of a kind with a name. Raises `UnknownStack` or `AmbiguousStack`, whose
    texts call it by the noun."""
    plugins: tuple[P, ...] = find_plugins(kind)
    matches = [plugin for plugin in plugins if plugin.name == name]
    if not matches:
        known = list(dict.fromkeys(plugin.name for plugin in plugins))
        near = get_close_matches(name, known, n=1)
        hint = f", did you mean {near[0]!r}?" if near else ";"
        raise UnknownStack(
            f"no {noun} {name!r} is installed{hint} there are: {', '.join(known) or 'none'}"
        )
    if len(matches) > 1:
        origins = " and ".join(sorted(map(class_name, matches)))
        raise AmbiguousStack(f"the {noun} {name!r} is installed {len(matches)} times: by {origins}")
    (plugin,) = matches
    return plugin


def find_stacks() -> tuple[IProtocolStack, ...]:
    """Return all installed link stacks."""
    return find_plugins(IProtocolStack)


def find_stack(name: str) -> IProtocolStack:
    """Return the link stack with a name. Raises `UnknownStack` or `AmbiguousStack`."""
    return find_plugin(IProtocolStack, name)


def class_name(plugin: object) -> str:
    """Return the full name of a plug-in's class, which names its package."""
    kind = type(plugin)
    return f"{kind.__module__}.{kind.__qualname__}"


def _is_usable(kind: type[INamedPlugin], plugin: INamedPlugin) -> bool:
    try:
        verifyObject(kind, plugin)
        if not isinstance(plugin.name, str):
            raise Invalid(f"its name is {plugin.name!r}")
        if IStackPlugin.providedBy(plugin) and not _is_attrs_class(plugin.options):
            raise Invalid(f"its options are {plugin.options!r}, not an attrs class")
    except Invalid as wrong:
        _log.error(
            "the plug-in {origin} does not provide the interface and is ignored: {wrong}",
            origin=class_name(plugin),
            wrong=wrong,
        )
        return False
    return True


def _is_attrs_class(options: object) -> bool:
    return isinstance(options, type) and hasattr(options, "__attrs_attrs__")
