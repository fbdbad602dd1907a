"""Every public interface, to be read in one place; each is defined on its own floor."""

from __future__ import annotations

from broker.channel.layer import ILayer, ILayerCore
from broker.channel.multicast import IMulticastReceiver
from broker.channel.receiver import IStackReceiver
from broker.channel.socket import ISocketChannel, ISocketReceiver
from broker.channel.stacks import IProtocolStack
from broker.content.contract import IMatcher
from broker.dtd.interfaces import IDtd, IDtdCache, IDtdSource
from broker.identity.interfaces import IAuthenticator, IIdentity

__all__ = [
    "IAuthenticator",
    "IDtd",
    "IDtdCache",
    "IDtdSource",
    "IIdentity",
    "ILayer",
    "ILayerCore",
    "IMatcher",
    "IMulticastReceiver",
    "IProtocolStack",
    "ISocketChannel",
    "ISocketReceiver",
    "IStackReceiver",
]
