"""Options and service of `twistd xmlbroker`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.application.service import IService
from twisted.internet.endpoints import serverFromString
from twisted.python import usage

from broker.config import Settings, defaults, load
from broker.errors import BrokerError, ConfigurationError
from broker.node.garbage_collection import collect_rarely
from broker.node.log_escape import escape_log_lines
from broker.node.reload_signal import ReloadSignal
from broker.private_files import PRIVATE_UMASK, use_umask


class Options(usage.Options):
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
    path: Path | None
    """Of the configuration; twistd may change the folder."""
    reload_signal: ReloadSignal

    def postOptions(self) -> None:
        """Errors become one line without a traceback."""
        try:
            path = self["config"]
            self.reload_signal = ReloadSignal()
            if path is not None:
                self.reload_signal.catch()
            self.path = None if path is None else Path(path).absolute()
            self.settings = defaults() if path is None else load(Path(path))
            check_endpoints(self.settings, _reactor())
        except BrokerError as error:
            raise usage.UsageError(str(error)) from None


def makeService(options: Options) -> IService:  # name demanded by Twisted
    # A wrong configuration is reported without these imports.
    # Before the log file of twistd is opened.
    use_umask(PRIVATE_UMASK)
    escape_log_lines()
    collect_rarely()
    from broker.node.service import NodeService

    service: IService = NodeService(
        options.settings, _reactor(), options.path, options.reload_signal
    )
    return service


def _reactor() -> Any:
    # The import installs the reactor, so twistd must choose one first.
    from twisted.internet import reactor

    return reactor


def check_endpoints(settings: Settings, reactor: Any) -> None:
    """Raise `ConfigurationError` for an endpoint string that Twisted can not parse."""
    texts = [*settings.listen.endpoints, *settings.network.listen]
    if settings.metrics.endpoint:
        texts.append(settings.metrics.endpoint)
    for text in texts:
        try:
            serverFromString(reactor, text)
        except (ValueError, TypeError, OSError) as error:
            raise ConfigurationError(f"endpoint {text!r}: {error}") from None
