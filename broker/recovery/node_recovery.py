"""What a node recovers from: other nodes, its own log, the archive (see `router.recovery`)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from twisted.internet.defer import Deferred, succeed

from broker.cluster.network_question import Questions
from broker.delivery.recovery import Former, Missed, Recovering, Roamer
from broker.recovery.archive_catch_up import StandingIn
from broker.recovery.branch_restore import Returning
from broker.recovery.context import Surroundings
from broker.recovery.durable_handover import HandingOver
from broker.recovery.planner import FEW
from broker.recovery.silent_origin import SilentOrigins
from broker.recovery.subscription_recovery import Filling


class NodeRecovery:
    """One node's. Without a network there is nobody to take a subscription over from."""

    def __init__(
        self,
        around: Surroundings,
        handing_over: HandingOver | None,
        standing_in: StandingIn | None = None,
        questions: Questions | None = None,
        returning: Returning | None = None,
        silent_origins: SilentOrigins | None = None,
    ) -> None:
        self.around = around
        self.standing_in = standing_in
        self.returning = returning
        self.silent_origins = silent_origins
        self.handing_over = handing_over
        self.questions = questions
        """To all other nodes; None without a network."""
        self.begun = 0
        self.cancelled = 0
        self.failed = 0
        """That could not go on, since the archive could not be searched."""
        self.found: Counter[str] = Counter()
        """Events of recoveries that are over, by source."""
        self.lost = 0
        """Places of which they were told that nobody has them."""
        self.under_way: dict[Filling, None] = {}

    @property
    def has_past(self) -> bool:
        """Whether there is an archive."""
        return self.around.archive is not None

    def begin(self, missed: Missed) -> Recovering:
        """Begin to recover."""
        self.begun += 1
        filling = Filling(missed, self.around, len(self.under_way), self._ended)
        self.under_way[filling] = None
        return filling

    def _ended(self, filling: Filling) -> None:
        if filling not in self.under_way:
            return
        del self.under_way[filling]
        self.found.update(filling.found)
        if filling.has_failed:
            self.failed += 1
        elif filling.is_cancelled:
            self.cancelled += 1
        else:
            self.lost += filling.lost_places

    def progress(self) -> None:
        """To be called each second."""
        if self.handing_over is not None:
            self.handing_over.look()
        if self.returning is not None:
            self.returning.look()
        if self.standing_in is not None:
            self.standing_in.look()
        if self.silent_origins is not None:
            self.silent_origins.look()

    def recoveries(self, client_id: str) -> list[dict[str, Any]]:
        """Those of a client that are under way, for people."""
        return [each.told() for each in self.under_way if each.client_id == client_id]

    def is_too_much_for_log(self, places: int) -> bool:
        """Whether so many places are rather recovered from the archive than read from the log."""
        archive = self.around.archive
        if archive is None or not archive.is_warm():
            return False
        return places > FEW // (1 + len(self.under_way))

    def is_gone(self, origin: str) -> bool:
        """Whether only the archive knows how far an origin got."""
        around = self.around
        return self.has_past and origin != around.origin and not around.homes(origin)

    def take_over(self, roamer: Roamer) -> Deferred[Former | None]:
        """Have a durable subscription handed over by whoever has it."""
        if self.handing_over is None:
            return succeed(None)
        return Deferred.fromCoroutine(self.handing_over.take_over(roamer))

    def settled(self, client_id: str, name: str, former: str) -> None:
        """The node where a subscription was need not keep it any more."""
        if self.handing_over is not None:
            self.handing_over.release(former, client_id, name)
