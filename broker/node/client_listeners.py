"""Listeners for clients, whose certificates can be replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.endpoints import serverFromString
from twisted.internet.interfaces import IListeningPort
from twisted.internet.protocol import Factory

from broker.errors import ConfigurationError
from broker.transport.socket.reloadable_context import ReloadableContext


class ClientListeners:
    """Ports of `listen.endpoints`.

    It stands for the reactor while an endpoint listens, so that it sees the TLS context.
    """

    def __init__(
        self, reactor: Any, endpoints: Sequence[str], wrap: Callable[[Any], Any] = lambda each: each
    ) -> None:
        """`wrap` returns a reactor that adapts TLS contexts, such as to clients' certificates."""
        self._reactor = reactor
        self._endpoints = endpoints
        self._wrap = wrap
        self._contexts: list[ReloadableContext] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)

    def listen(self, factory: Factory) -> list[Deferred[IListeningPort]]:
        return [
            serverFromString(self._wrap(self), text).listen(factory) for text in self._endpoints
        ]

    def listenSSL(
        self, port: int, factory: Any, contextFactory: Any, *args: Any, **named: Any
    ) -> IListeningPort:
        context = ReloadableContext(contextFactory)
        self._contexts.append(context)
        listening: IListeningPort = self._reactor.listenSSL(port, factory, context, *args, **named)
        return listening

    def load_certificates(self) -> Callable[[], bool]:
        """Read the files of the endpoints again, in any thread.

        Return a function that puts them in force, and returns whether there are any. Raises
        `ConfigurationError`.
        """
        loader = _ContextLoader(self._reactor)
        for text in self._endpoints:
            try:
                serverFromString(self._wrap(loader), text).listen(Factory())
            except Exception as error:
                # The files may hold anything, and OpenSSL has many errors.
                raise ConfigurationError(f"endpoint {text!r}: {error}") from None

        def replace() -> bool:
            for context, loaded in zip(self._contexts, loader.contexts, strict=True):
                context.replace(loaded)
            return bool(self._contexts)

        return replace


class _ContextLoader:
    """A reactor whose listeners load their TLS context, and do not listen."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self.contexts: list[ReloadableContext] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("listen"):
            return lambda *_, **__: succeed(None)
        return getattr(self._reactor, name)

    def listenSSL(self, port: int, factory: Any, contextFactory: Any, *_: Any, **__: Any) -> None:
        # The context is made lazily.
        contextFactory.getContext()
        self.contexts.append(ReloadableContext(contextFactory))
