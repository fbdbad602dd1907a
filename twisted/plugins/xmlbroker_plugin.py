"""The drop-in for `twistd`: names the subcommand.

`twistd` imports every drop-in, so this one names `broker.node.tap` as text and imports none of it.
"""

from __future__ import annotations

from twisted.application.service import ServiceMaker

xmlbroker = ServiceMaker(
    "xmlbroker",
    "broker.node.tap",
    "A node of the xmlbroker publish/subscribe network",
    "xmlbroker",
)
