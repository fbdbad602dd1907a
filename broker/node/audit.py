"""Audit log of a node by its settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from broker.audit import AuditFile, AuditLog, NoAuditLog
from broker.config.audit import AuditSettings
from broker.limit_registry import LimitRegistry
from broker.node.threads import Threads

#: Questions of clients that change something, beyond durable subscriptions of their own.
AUDITED_QUESTIONS: Final = frozenset(
    {
        *("dtd-add", "operate", "order-admit", "order-remove", "client-reset", "reload"),
        "log-give-up",
        *("durable-pause", "durable-resume", "durable-reset", "durable-delete"),
    }
)


def build_audit_log(
    settings: AuditSettings,
    threads: Threads,
    clock: Any,
    wall_clock: Callable[[], int],
    limit_registry: LimitRegistry,
) -> AuditLog | NoAuditLog:
    """Raises `ConfigurationError` for a file that can not be written."""
    if settings.file is None:
        return NoAuditLog()
    file = AuditFile(settings.file, settings.max_bytes, settings.max_files)
    file.check()
    return AuditLog(
        file.append,
        threads.run_in_pool,
        wall_clock=wall_clock,
        now=clock.seconds,
        limit_registry=limit_registry,
    )
