"""Options and service of `twistd xmlbroker`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from twisted.application.service import IService
from twisted.internet.endpoints import serverFromString
from twisted.python import usage

from broker.config import Settings, defaults, load
from broker.config.key_location import KeyPath
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
            self.settings = (
                defaults() if path is None else load(Path(path), find_faults=find_input_faults)
            )
            check_endpoints(self.settings, _reactor())
        except BrokerError as error:
            raise usage.UsageError(str(error)) from None


def find_input_faults(settings: Settings) -> Iterable[tuple[KeyPath, str]]:
    """Make the checks of `xmlbroker pub` for the inputs of a node."""
    if not settings.inputs:
        return ()
    # Most nodes do not need the modules of the command.
    from broker.cli.publishing import configured_input

    return configured_input.find_input_faults(settings)


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
