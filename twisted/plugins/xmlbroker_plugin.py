"""The drop-in for `twistd`: names the subcommand.

`broker.tap` is named as a text, since `twistd` imports every drop-in and should not pay for ours.
"""

from __future__ import annotations

from twisted.application.service import ServiceMaker

xmlbroker = ServiceMaker(
    "xmlbroker",
    "broker.tap",
    "A node of the xmlbroker publish/subscribe network",
    "xmlbroker",
)
