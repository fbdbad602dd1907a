"""Opening of a node's event log by its settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.config import Settings
from broker.config.stacks import FindPlugins
from broker.log.commit import Retention
from broker.log.event_log import EventLog
from broker.log.log_file import LogFile
from broker.log.own_key import OwnKey
from broker.node.threads import Threads
from broker.signatures.node_key import load_node_key
from broker.streams.transports import carrying_patterns, ordered_patterns


def open_event_log(
    settings: Settings,
    clock: Any,
    threads: Threads,
    wall_clock: Callable[[], int],
    open_file: Callable[..., LogFile],
    find_plugins: FindPlugins,
    *,
    archived: bool,
    on_rollback: Callable[[int], None],
) -> EventLog:
    """Open the log. An `archived` one holds events that are not in the archive yet for longer.

    Raises `LogUnavailable`, `LogCorrupt`.
    """
    log = settings.log
    hold = max(log.max_bytes, settings.archive.hold_bytes or 2 * log.max_bytes)
    retention = Retention(
        max_bytes=log.max_bytes,
        max_age_ms=int(log.max_age * 1000),
        marks_age_ms=int(log.deduplication_age * 1000),
        unarchived_bytes=hold if archived else 0,
    )
    folder = settings.node.data / "log"
    return EventLog(
        open_file(
            folder,
            retention,
            sync=log.sync,
            wall_clock=wall_clock,
            own_key=_find_own_key(settings),
        ),
        clock=clock,
        wall_clock=wall_clock,
        write=threads.write,
        read=threads.read,
        window=log.deduplication_window,
        carrying=carrying_patterns(settings),
        ordered=ordered_patterns(settings, find_plugins),
        on_rollback=on_rollback,
    )


def _find_own_key(settings: Settings) -> OwnKey:
    network = settings.network
    must_sign = network.sign_earlier_log or network.require_signatures
    return OwnKey(
        load_node_key(settings.node.data), must_sign, signs_commits=not network.is_standalone
    )
