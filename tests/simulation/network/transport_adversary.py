"""A member of a network whose stream transport sends something else than it should."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol, cast

from broker.config.stacks import Plugins
from broker.streams.contract import (
    ILinkReceiver,
    ILinks,
    IStreamTransport,
    ITransportContext,
    ITransportPlugin,
)
from broker.testing.wrapped_transport import Wrapped
from broker.transport.message import Outcome


class LinkAttack(Protocol):
    """Changes of the messages on the links of one instance."""

    def alter_message(self, data: bytes, peer: Hashable) -> Sequence[bytes]:
        """Return the messages that are sent to a peer in place of one."""


def attacked(plugins: Plugins, node: str, attack: LinkAttack) -> Plugins:
    """Return plug-ins of which the instance in one node changes what it sends."""
    plugin, links = plugins

    def create(context: ITransportContext) -> IStreamTransport:
        if context.node != node:
            return plugin.create(context)

        def open_links(listen: str, receiver: ILinkReceiver) -> ILinks:
            opened = context.open_links(listen, receiver)

            def send(
                messages: Sequence[bytes], peers: Sequence[Hashable]
            ) -> Sequence[Mapping[Hashable, Outcome]]:
                for peer in peers:
                    altered = [x for each in messages for x in attack.alter_message(each, peer)]
                    if altered:
                        opened.send(altered, [peer])
                return [dict.fromkeys(peers, Outcome.SENT) for _ in messages]

            return cast(ILinks, Wrapped(opened, send=send))

        return plugin.create(cast(ITransportContext, Wrapped(context, open_links=open_links)))

    return cast(ITransportPlugin, Wrapped(plugin, create=create)), links
