"""temporary"""

from __future__ import annotations

from typing import ClassVar

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from broker.transport.stacks import IProtocolStack
from plugins.mspaces.stack import MspacesStack


@implementer(IPlugin, IProtocolStack)
@attrs.frozen
class RcmStack(MspacesStack):
    name: ClassVar[str] = "rcm"


rcm = RcmStack()
