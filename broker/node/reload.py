"""Reload of a running node's configuration: accounts, limits, certificates, log levels."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeAlias

import attrs
from twisted.internet.defer import Deferred, DeferredLock
from twisted.logger import Logger
from twisted.python.failure import Failure

from broker.audit import IAuditLog
from broker.config import Settings
from broker.config.reloadable import Changes, find_changes
from broker.config.settings_stream import SettingsStream
from broker.dtd.store import StoreLimits
from broker.errors import BrokerError, ConfigurationError
from broker.identity import Accounts, Identity
from broker.ingest.account_rate import RateLimits
from broker.ingest.quarantine import Quarantine
from broker.ingest.rated_input import RatedInput
from broker.node.event_types import EventTypes
from broker.node.log_levels import LogLevels
from broker.node.prepared_accounts import PreparedAccounts
from broker.node.threads import Threads
from broker.queue_memory import QueueMemory
from broker.sessions.acceptor import SessionAcceptor, SessionLimits
from broker.sessions.account_changes import AccountChanges, EndedByChange
from broker.subscriptions.subscription_limits import SubscriptionBounds
from broker.subscriptions.subscription_requests import SubscriptionRequests
from broker.transport.clock import IClock
from broker.transport.sleep import sleep
from broker.wire.messages import Ask
from broker.wire.stack import ENVELOPE_BYTES

#: Reads files in a thread; the result uses them on the reactor, and returns whether there are any.
LoadCertificates: TypeAlias = Callable[[], Callable[[], bool]]
#: Of one turn of the reactor.
_SLICE_SECONDS: Final = 0.002


class ReloadedNode(Protocol):
    settings: Settings

    @property
    def accounts(self) -> Accounts: ...
    @property
    def acceptor(self) -> SessionAcceptor: ...
    @property
    def subscription_requests(self) -> SubscriptionRequests: ...
    @property
    def quarantine(self) -> Quarantine: ...
    @property
    def rated_input(self) -> RatedInput: ...
    @property
    def queue_memory(self) -> QueueMemory: ...
    @property
    def types(self) -> EventTypes: ...
    @property
    def audit(self) -> IAuditLog: ...


@attrs.frozen
class _Loaded:
    changes: Changes
    pieces: Sequence[bytes]
    certificates: Sequence[Callable[[], bool]]


class Reload:
    """Reads the whole configuration, and then changes the node: all or nothing."""

    log = Logger()

    def __init__(
        self,
        node: ReloadedNode,
        load: Callable[[], SettingsStream],
        threads: Threads,
        clock: IClock,
        *,
        certificates: Sequence[LoadCertificates] = (),
        log_levels: LogLevels | None = None,
    ) -> None:
        """`load` blocks, and raises `ConfigurationError`."""
        self._node = node
        self._load = load
        self._threads = threads
        self._clock = clock
        self._certificates = certificates
        self._log_levels = log_levels
        self._lock = DeferredLock()

    def answer(self, identity: Identity, _: Ask) -> Deferred[dict[str, Any]]:
        """Answer an administrator. The audit log has the question."""
        identity.check_administer()
        return self._run()

    def handle_signal(self) -> None:
        """Reload, and log the result."""
        reloaded = self._run()
        audit = self._node.audit

        def fail(failure: Failure) -> None:
            error = failure.value
            if not isinstance(error, BrokerError):
                self.log.failure("the reload failed", failure)
                error = ConfigurationError("the reload failed")
            audit.record("reload", subject="SIGHUP", error=error)

        reloaded.addCallbacks(lambda _: audit.record("reload", subject="SIGHUP"), fail)

    def _run(self) -> Deferred[dict[str, Any]]:
        return self._lock.run(lambda: Deferred.fromCoroutine(self._reload()))

    async def _reload(self) -> dict[str, Any]:
        try:
            loaded: _Loaded = await self._threads.run_in_pool(self._load_all, self._node.settings)
        except BrokerError as error:
            self.log.error("the configuration is not reloaded: {error}", error=error)
            raise
        changes = loaded.changes
        applied, restart = list(changes.applied), list(changes.restart)
        ended = EndedByChange()
        with _paused_collection():
            accounts = PreparedAccounts(self._node.settings.accounts, self._node.accounts)
            await self._in_slices(accounts.decode(loaded.pieces))
            self._apply(changes.settings)
            replaced = [replace() for replace in loaded.certificates]
            if any(replaced):
                applied.append("certificates")
            if accounts.needs_restart:
                restart.append("accounts")
            elif accounts.has_changed:
                applied.append("accounts")
                self._node.settings = attrs.evolve(self._node.settings, accounts=accounts.settings)
                self._node.accounts.replace(accounts.by_name)
                ended = await self._revise_sessions()
            await self._in_slices(accounts.release())
        self.log.info(
            "the configuration is reloaded: {applied} applied, {restart} only after a restart; "
            "{sessions} sessions and {subscriptions} subscriptions ended",
            applied=", ".join(applied) or "nothing",
            restart=", ".join(restart) or "nothing",
            sessions=ended.sessions,
            subscriptions=ended.subscriptions,
        )
        return {
            "applied": applied,
            "restart": restart,
            "sessions_ended": ended.sessions,
            "subscriptions_ended": ended.subscriptions,
        }

    def _load_all(self, present: Settings) -> _Loaded:
        stream = self._load()
        return _Loaded(
            find_changes(present, stream.settings),
            stream.pieces,
            [load() for load in self._certificates],
        )

    async def _in_slices(self, steps: Iterator[object]) -> None:
        began = self._clock.seconds()
        for _ in steps:
            if self._clock.seconds() - began >= _SLICE_SECONDS:
                await sleep(self._clock)
                began = self._clock.seconds()

    def _apply(self, settings: Settings) -> None:
        node, limits = self._node, settings.limits
        node.settings = settings
        node.acceptor.limits = SessionLimits.from_settings(limits, ENVELOPE_BYTES)
        node.subscription_requests.limits.bounds = SubscriptionBounds.from_settings(limits)
        node.rated_input.rates.limits = RateLimits.from_settings(limits)
        node.queue_memory.max_bytes = settings.queue.total_bytes
        node.quarantine.set_bounds(limits.quarantine_files, limits.quarantine_bytes)
        node.types.dtd_store.store.limits = StoreLimits(
            settings.types.max_versions, settings.types.max_bytes
        )
        if self._log_levels is not None:
            self._log_levels.set(settings.logging.levels())

    def _revise_sessions(self) -> Deferred[EndedByChange]:
        node = self._node
        changes = AccountChanges(
            node.accounts, lambda: node.acceptor.sessions, node.audit, self._clock
        )
        return changes.apply()


@contextlib.contextmanager
def _paused_collection() -> Iterator[None]:
    """The objects of thousands of accounts would start long collections of garbage. They have no
    cycles, so the collector ignores them from now on."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
