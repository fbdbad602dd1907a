"""A node's recovery from other nodes, its own log and the archive."""

from __future__ import annotations

from collections import Counter
from typing import Any

from twisted.internet.defer import Deferred, succeed

from broker.cluster.network_question import NetworkQuestions
from broker.delivery.recovery_contract import (
    ActiveRecovery,
    HandoverRequest,
    HandoverResult,
    RecoveryRequest,
)
from broker.event.flow import origin_of
from broker.recovery.archive_catch_up import ArchiveCatchUp
from broker.recovery.branch_restore import BranchRestore
from broker.recovery.context import RecoveryContext
from broker.recovery.durable_handover import DurableHandover
from broker.recovery.planner import MAX_LOG_PLACES
from broker.recovery.silent_origin import SilentOriginRecovery
from broker.recovery.subscription_recovery import SubscriptionRecovery


class NodeRecovery:
    """Implementation of `broker.delivery.recovery_contract.RecoveryService`."""

    def __init__(
        self,
        context: RecoveryContext,
        handover: DurableHandover | None,
        archive_catch_up: ArchiveCatchUp | None = None,
        questions: NetworkQuestions | None = None,
        branch_restore: BranchRestore | None = None,
        silent_origin_recovery: SilentOriginRecovery | None = None,
    ) -> None:
        self.context = context
        self.archive_catch_up = archive_catch_up
        self.branch_restore = branch_restore
        self.silent_origin_recovery = silent_origin_recovery
        self.handover = handover
        self.questions = questions
        self.started = 0
        self.cancelled = 0
        self.failed = 0
        """Recoveries that ended because the archive was not readable."""
        self.events_by_source: Counter[str] = Counter()
        self.lost_places = 0
        self.active: dict[SubscriptionRecovery, None] = {}

    @property
    def has_archive(self) -> bool:
        return self.context.archive is not None

    @property
    def has_network(self) -> bool:
        return self.context.page_exchange is not None

    def start_recovery(self, request: RecoveryRequest) -> ActiveRecovery:
        self.started += 1
        recovery = SubscriptionRecovery(request, self.context, len(self.active), self._record_end)
        self.active[recovery] = None
        return recovery

    def _record_end(self, recovery: SubscriptionRecovery) -> None:
        if recovery not in self.active:
            return
        del self.active[recovery]
        self.events_by_source.update(recovery.events_by_source)
        if recovery.has_failed:
            self.failed += 1
        elif recovery.is_cancelled:
            self.cancelled += 1
        else:
            self.lost_places += recovery.lost_places

    def run_periodic_jobs(self) -> None:
        """Call it each second."""
        if self.handover is not None:
            self.handover.track_silent_nodes()
        if self.branch_restore is not None:
            self.branch_restore.start_due_job()
        if self.archive_catch_up is not None:
            self.archive_catch_up.run_if_due()
        if self.silent_origin_recovery is not None:
            self.silent_origin_recovery.run_if_due()

    def active_snapshots(self, client_id: str) -> list[dict[str, Any]]:
        return [each.snapshot() for each in self.active if each.client_id == client_id]

    def is_too_much_for_log(self, places: int) -> bool:
        archive = self.context.archive
        if archive is None or not archive.is_warm():
            return False
        return places > MAX_LOG_PLACES // (1 + len(self.active))

    def is_archive_only(self, origin: str) -> bool:
        context = self.context
        return (
            self.has_archive
            and origin_of(origin) != context.own_origin
            and not context.origin_nodes(origin)
        )

    def take_over_durable(self, request: HandoverRequest) -> Deferred[HandoverResult | None]:
        if self.handover is None:
            return succeed(None)
        return Deferred.fromCoroutine(self.handover.take_over_durable(request))

    def release_previous_node(self, client_id: str, name: str, address: str) -> None:
        if self.handover is not None:
            self.handover.release_durable(address, client_id, name)
