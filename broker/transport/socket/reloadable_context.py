"""TLS context whose certificates can be replaced while a listener runs."""

from __future__ import annotations

from typing import Any

from twisted.internet.interfaces import IOpenSSLContextFactory
from zope.interface import implementer


@implementer(IOpenSSLContextFactory)
class ReloadableContext:
    """Context factory for later handshakes; established connections keep their context."""

    def __init__(self, factory: Any) -> None:
        self._factory = factory

    def getContext(self) -> Any:
        return self._factory.getContext()

    def replace(self, other: ReloadableContext) -> None:
        self._factory = other._factory
