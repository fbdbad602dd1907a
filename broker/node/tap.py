"""`twistd xmlbroker`: its options, and the service they make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.application.service import IService
from twisted.python import usage

from broker.config import Settings, defaults, load
from broker.errors import BrokerError
from broker.node.service import NodeService, check_endpoints


class Options(usage.Options):
    """The command line of `twistd xmlbroker`."""

    synopsis = "[--config FILE]"
    longdesc = (
        "Runs a node of the xmlbroker network. Without options it listens on tcp port 8765 of "
        "the loopback interface and keeps its data in ./xmlbroker-data. "
        "`xmlbroker config --explain` shows every setting."
    )
    optParameters = [
        ["config", "c", None, "The node's configuration, a TOML file."],
    ]

    settings: Settings

    def postOptions(self) -> None:
        """Read the configuration; what is wrong with it is one line, not a traceback."""
        try:
            path = self["config"]
            self.settings = defaults() if path is None else load(Path(path))
            check_endpoints(self.settings, _reactor())
        except BrokerError as error:
            raise usage.UsageError(str(error)) from None


def makeService(options: Options) -> IService:  # the name is Twisted's
    """The service of a node with these options."""
    service: IService = NodeService(options.settings, _reactor())
    return service


def _reactor() -> Any:
    # Importing it installs it: not before twistd has chosen one.
    from twisted.internet import reactor

    return reactor
