"""Inputs of a node: for each one a child process `xmlbroker pub`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
from twisted.internet.defer import Deferred, gatherResults
from twisted.logger import Logger

from broker.child.input_report import CODEC, InputReport, Message
from broker.child.supervisor import ChildSupervisor
from broker.config import Settings
from broker.config.input_rules import find_node_address
from broker.config.inputs import InputSettings
from broker.rate_limited_log import RateLimitedLog, printable_line
from broker.transport.backoff import Backoff

#: Seconds until a restart, at first and at most.
MIN_RESTART_DELAY: Final = 1.0
MAX_RESTART_DELAY: Final = 60.0
_NO_REPORT: Final = InputReport(0, 0, 0, 0, 0)


class InputProcess:
    """Runs one input, and restarts its process with backoff.

    The process ends when this end of its connection closes, so also if the node is killed.
    """

    log = Logger()

    def __init__(self, reactor: Any, name: str, arguments: Sequence[str]) -> None:
        """`arguments` are those of `xmlbroker`."""
        self._name = name
        self._child = ChildSupervisor[Message](
            reactor,
            ["broker.cli", *arguments],
            CODEC,
            on_message=self._message_received,
            on_ended=self._process_ended,
            on_output=self._output_received,
            backoff=Backoff(MIN_RESTART_DELAY, MAX_RESTART_DELAY, jitter=False),
        )
        # A hostile feed can not fill the disk with refusals.
        self._output_log = RateLimitedLog(
            lambda text: self.log.warn("input {name}: {text}", name=name, text=text),
            reactor.seconds,
        )
        self._report = _NO_REPORT
        self._restarts = 0
        self._last_error = ""

    def start(self) -> None:
        self._child.start()

    def stop(self) -> Deferred[None]:
        """The process waits for its receipts, for a bounded time."""
        return self._child.stop()

    def snapshot(self) -> dict[str, Any]:
        """Return a row of `status`. The counts are those since the process started."""
        return {
            "name": self._name,
            "pid": self._child.pid,
            **{key: getattr(self._report, key) for key in self._report.__struct_fields__},
            "restarts": self._restarts,
            "not_logged": self._output_log.suppressed,
            "last_error": self._last_error,
        }

    def _message_received(self, message: Message) -> None:
        if isinstance(message, InputReport):
            if message.durable and not self._report.durable:
                self.log.info("input {name}: the first event is durable", name=self._name)
            self._report = message
            self._child.report_success()

    def _output_received(self, text: str) -> None:
        self._last_error = printable_line(text)
        # Equal lines are repetitions.
        self._output_log.report(self._name, text, text)

    def _process_ended(self, reason: str, was_stopped: bool) -> None:
        self._report = _NO_REPORT
        if was_stopped:
            return
        self._restarts += 1
        self._last_error = self._last_error or reason
        self.log.error(
            "input {name}: the process has ended: {reason}; it is restarted",
            name=self._name,
            reason=reason.removesuffix("."),
        )


@attrs.frozen
class Inputs:
    processes: Sequence[InputProcess]

    def start(self) -> None:
        """Call it when the node accepts connections."""
        for process in self.processes:
            process.start()

    def snapshot(self) -> Sequence[Mapping[str, Any]]:
        return [process.snapshot() for process in self.processes]

    def stop(self) -> Deferred[None]:
        """Call it while the node still acknowledges events."""
        stopped = gatherResults([process.stop() for process in self.processes], consumeErrors=True)
        return stopped.addCallback(lambda _: None)


def build_inputs(settings: Settings, reactor: Any) -> Inputs:
    if not settings.inputs:
        return Inputs(())
    # Most nodes do not need the modules of the command.
    from broker.cli.publishing.configured_input import pub_arguments

    address = find_node_address(settings) or ""

    def build(each: InputSettings) -> InputProcess:
        arguments = pub_arguments(each, address, table_path(settings.node.data, each.name))
        return InputProcess(reactor, each.name, arguments)

    return Inputs([build(each) for each in settings.inputs])


def table_path(data: Path, name: str) -> Path:
    """Return the table of what the input has published. It stays if the input is removed."""
    return data / "inputs" / f"{name}.db"
