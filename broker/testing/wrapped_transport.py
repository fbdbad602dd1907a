"""Stream transports that fail, or whose messages are recorded."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, cast

from broker.config.stacks import Plugins
from broker.streams.contract import (
    ILinkReceiver,
    ILinks,
    IStreamTransport,
    ITransportContext,
    ITransportPlugin,
)


class InjectedError(Exception):
    """Raised by a failing transport."""


class Wrapped:
    """An object with other methods of some names."""

    def __init__(self, within: object, **methods: Callable[..., object]) -> None:
        self._within = within
        self._methods = methods

    def __getattr__(self, name: str) -> Any:
        return self._methods.get(name) or getattr(self._within, name)


def _wrap_receivers(
    context: ITransportContext, wrap: Callable[[ILinkReceiver], object]
) -> ITransportContext:
    def open_links(listen: str, receiver: ILinkReceiver) -> ILinks:
        return context.open_links(listen, cast(ILinkReceiver, wrap(receiver)))

    return cast(ITransportContext, Wrapped(context, open_links=open_links))


def failing(plugins: Plugins, node: str, method: str, successes: int = 0) -> Plugins:
    """Return plug-ins whose transport raises in one node, after some successful calls.

    The method is of `IStreamTransport` or `ILinkReceiver`.
    """
    plugin, links = plugins
    left = successes

    def fail(within: object) -> object:
        def call(*arguments: object) -> object:
            nonlocal left
            if not left:
                raise InjectedError(method)
            left -= 1
            return getattr(within, method)(*arguments)

        return Wrapped(within, **{method: call})

    def create(context: ITransportContext) -> IStreamTransport:
        if context.node != node:
            return plugin.create(context)
        return cast(IStreamTransport, fail(plugin.create(_wrap_receivers(context, fail))))

    return cast(ITransportPlugin, Wrapped(plugin, create=create)), links


def recorded(plugins: Plugins, messages: list[bytes]) -> Plugins:
    """Return plug-ins whose transports append the messages of their links to a list."""
    plugin, links = plugins

    def record(receiver: ILinkReceiver) -> object:
        def messages_received(peer: Hashable, received: Sequence[bytes]) -> None:
            messages.extend(received)
            receiver.messages_received(peer, received)

        return Wrapped(receiver, messages_received=messages_received)

    def create(context: ITransportContext) -> IStreamTransport:
        return plugin.create(_wrap_receivers(context, record))

    return cast(ITransportPlugin, Wrapped(plugin, create=create)), links
