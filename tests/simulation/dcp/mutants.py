"""Broken variants of the protocol. The checks of a run must find each of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from plugins.dcp.children import Children
from plugins.dcp.control import Join
from plugins.dcp.epoch_steps import EpochSteps
from plugins.dcp.event_range import Description, EventRange, SequenceKey
from plugins.dcp.mesh import membership
from plugins.dcp.mesh.admission import Admission
from plugins.dcp.mesh.standing import Standing, derive_standing
from plugins.dcp.parent_chains import ParentChains
from plugins.dcp.parents import Parents
from plugins.dcp.receiver import SequenceReceiver
from plugins.dcp.sender import Sent, SequenceSender, Unavailable
from plugins.dcp.sequences import SequenceState
from tests.simulation.dcp.churn import Churn
from tests.simulation.dcp.mesh_run import MeshRun


def _run(seed: int) -> list[str]:
    return MeshRun(seed).run()


def _churn(seed: int) -> list[str]:
    return Churn(seed).run(60)


@contextmanager
def missing_range_not_passed_on() -> Iterator[None]:
    """A relay states a range that it missed as one without events."""

    def pass_missing(self: SequenceSender[EventRange], upto: int) -> None:
        self.end = max(self.end, upto)

    with patch.object(SequenceSender, "pass_missing", pass_missing):
        yield


@contextmanager
def delivery_only_if_equal() -> Iterator[None]:
    """A range is delivered only if it begins exactly at the present place."""
    receive = SequenceReceiver.receive

    def receive_equal(
        self: Any, parent: Hashable, range_: Any, now: float, *, is_repeated: bool = False
    ) -> Sequence[Any]:
        if self.current is not None and range_.previous < self.current < range_.upto:
            return ()
        return receive(self, parent, range_, now, is_repeated=is_repeated)

    with patch.object(SequenceReceiver, "receive", receive_equal):
        yield


@contextmanager
def previous_before_filtering() -> Iterator[None]:
    """A packet names the AN before its own in the stream, not the last one sent on the link."""
    next_to_send = SequenceSender.next_to_send

    def next_unchained(
        self: SequenceSender[EventRange], room: int, now: float
    ) -> Sent[EventRange] | Unavailable:
        found = next_to_send(self, room, now)
        if isinstance(found, Sent) and isinstance(found.range, EventRange) and found.range.events:
            first = found.range.events[0].mark[1]
            found.range = found.range.begin_at(max(found.range.previous, first - 1))
        return found

    with patch.object(SequenceSender, "next_to_send", next_unchained):
        yield


@contextmanager
def inverted_level_test() -> Iterator[None]:
    """A node accepts a child of a lower level than its own, as the slides say (K7)."""
    reserve, take = Admission.reserve, Admission.take

    def reserve_inverted(
        self: Admission,
        connection: Any,
        join: Join,
        own_level: int,
        *args: Any,
        **named: Any,
    ) -> str:
        if join.level and own_level < join.level:
            return "level"
        return reserve(self, connection, Join(join.name, 0), own_level, *args, **named)

    def take_any(self: Admission, connection: Any, own_level: int) -> tuple[Join, str]:
        join, _ = take(self, connection, own_level)
        return join, ""

    with (
        patch.object(Admission, "reserve", reserve_inverted),
        patch.object(Admission, "take", take_any),
        patch.object(membership.Membership, "_confirm", _confirm_any),
    ):
        yield


def _confirm_any(self: Any, connection: Any, candidate: Any, now: float) -> None:
    """Take a place whatever the level of its node."""
    self._parents.add(connection, candidate, now)
    connection.send_control(self._parents.interest)


@contextmanager
def level_raised_with_children() -> Iterator[None]:
    """The level follows the parents' although the node has children."""

    def derive(name: str, diversity: Any, parents: Any, fixed: int | None) -> Standing:
        return derive_standing(name, diversity, parents, None)

    def connected(self: Any, connection: Any, now: float) -> None:
        if connection.is_dialled:
            connection.send_control(Join(self._host.name, 0))

    with (
        patch.object(membership, "derive_standing", derive),
        patch.object(membership.Membership, "_confirm", _confirm_any),
        patch.object(membership.Membership, "connected", connected),
    ):
        yield


@contextmanager
def range_beyond_own_an() -> Iterator[None]:
    """A relay states its newest known AN as the end of what it sends."""
    forward = Children.forward

    def forward_beyond(
        self: Children, state: SequenceState, range_: EventRange, links: Any
    ) -> None:
        if state.receiver is not None:
            newest = max([range_.upto, *(each.end for each in state.receiver._chains)])
            range_ = EventRange(range_.previous, newest, range_.events, range_.entries)
        forward(self, state, range_, links)

    with patch.object(Children, "forward", forward_beyond):
        yield


@contextmanager
def no_query_epoch() -> Iterator[None]:
    """A range counts for each query."""
    with (
        patch.object(EpochSteps, "reached_after", lambda self, epoch: 0),
        patch.object(EpochSteps, "epoch_at", lambda self, an: 0),
        patch.object(
            SequenceReceiver,
            "require",
            lambda self, an, epoch, now: self.required.add(an, epoch) or [],
        ),
    ):
        yield


@contextmanager
def in_force_before_covered() -> Iterator[None]:
    """A query is in force although the parent's own feed lacks its events."""

    def when_covered(self: Parents, call: Callable[[], object]) -> None:
        call()

    with patch.object(Parents, "when_covered", when_covered):
        yield


@contextmanager
def certain_at_first_parent() -> Iterator[None]:
    """A range counts as missing as soon as one parent has passed it."""

    def have_passed(self: ParentChains, an: int, required: EpochSteps) -> bool:
        return any(each.has_passed(an, required) for each in self)

    with patch.object(ParentChains, "have_passed", have_passed):
        yield


@contextmanager
def new_epoch_in_old_sequence() -> Iterator[None]:
    """An origin's epochs share one sequence of ANs."""

    def key(flow: str, epoch: int) -> SequenceKey:
        return SequenceKey(flow, 0)

    with (
        patch.object(Description, "key", property(lambda self: SequenceKey(self.flow, 0))),
        patch("plugins.dcp.router.SequenceKey", key),
    ):
        yield


@contextmanager
def released_before_proven() -> Iterator[None]:
    """An old parent ends before the new one has proven itself."""

    def prepare_end(self: Any, parent: Any, now: float, *, asks_permission: bool = False) -> None:
        self._endpoint.close(parent.connection, "moved", now)
        self.search.begin_pass(now)

    with patch.object(membership.Membership, "_prepare_end", prepare_end):
        yield


#: Each with the runs that find it.
MUTANTS: dict[Callable[[], AbstractContextManager[None]], Callable[[int], list[str]]] = {
    missing_range_not_passed_on: _run,
    delivery_only_if_equal: _run,
    previous_before_filtering: _run,
    inverted_level_test: _churn,
    level_raised_with_children: _churn,
    range_beyond_own_an: _run,
    no_query_epoch: _run,
    in_force_before_covered: _run,
    certain_at_first_parent: _run,
    new_epoch_in_old_sequence: _run,
    released_before_proven: _run,
}


def find_violation(mutant: Callable[[], AbstractContextManager[None]], seeds: range) -> int | None:
    """Return the first seed whose checks fail."""
    run = MUTANTS[mutant]
    for seed in seeds:
        with mutant():
            try:
                violations = run(seed)
            except (AssertionError, ValueError) as error:
                violations = [repr(error)]
        if violations:
            return seed
    return None
