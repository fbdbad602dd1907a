"""A transport's receiver of links, whose errors stop its instance."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

from zope.interface import implementer

from broker.errors import Closed
from broker.streams.contract import ILinkReceiver
from broker.transport.monitor import ILinkOwner, ILinkOwners
from broker.transport.view import LinkState


class Instance(Protocol):
    """An instance of a transport."""

    @property
    def error(self) -> str:
        """Reason of its stop by an error; empty: it runs."""

    def fail(self, error: Exception) -> None:
        """Stop the instance."""


def guard_receiver(instance: Instance, receiver: Any) -> ILinkReceiver:
    """Return a receiver that also owns links if `receiver` does."""
    kind = _GuardedOwner if ILinkOwners.providedBy(receiver) else _GuardedReceiver
    guarded: ILinkReceiver = kind(instance, receiver)
    return guarded


@implementer(ILinkReceiver)
class _GuardedReceiver:
    def __init__(self, instance: Instance, receiver: Any) -> None:
        self._instance = instance
        self._receiver = receiver

    def messages_received(self, peer: Hashable, messages: Sequence[bytes]) -> None:
        self._call(self._receiver.messages_received, peer, messages)

    def link_changed(self, peer: Hashable, state: LinkState) -> None:
        self._call(self._receiver.link_changed, peer, state)

    def _call(self, method: Callable[..., object], *arguments: object) -> None:
        if self._instance.error:
            return
        try:
            method(*arguments)
        except Exception as error:
            self._instance.fail(error)


@implementer(ILinkOwners)
class _GuardedOwner(_GuardedReceiver):
    """Errors of the owner of a link end that link."""

    @property
    def incarnation(self) -> int:
        incarnation: int = self._receiver.incarnation
        return incarnation

    def own_link(self, node: str) -> ILinkOwner:
        if self._instance.error:
            raise Closed("the stack has stopped")
        owner: ILinkOwner = self._receiver.own_link(node)
        return owner
