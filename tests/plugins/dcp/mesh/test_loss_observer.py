"""Parents that have lost an event, counted some seconds after it came."""

from __future__ import annotations

from collections.abc import Hashable

from plugins.dcp.event_range import EventRange
from plugins.dcp.mesh.joint_loss import JointLoss, LossCount
from plugins.dcp.mesh.loss_observer import SETTLED_AFTER, LossObserver
from plugins.dcp.parent_path import ParentPath
from plugins.dcp.receiver import ReceiverSettings, SequenceReceiver
from plugins.dcp.recent_events import RecentEvents
from tests.plugins.dcp.connection_pipe import make_range


class Observed:
    """A sequence from the parents a, b and c, all of whose copies come at once."""

    def __init__(self) -> None:
        recent, self.losses = RecentEvents(), JointLoss()
        self.paths: dict[Hashable, ParentPath] = {name: ParentPath(name) for name in "abc"}
        paths = self.paths
        self.core = SequenceReceiver[EventRange](paths, ReceiverSettings(), recent)
        self.core.begin(0, 0.0)
        for name in paths:
            self.core.set_parent(name, 0, 0, 0.0)
        self._observer = LossObserver(recent, self.losses, paths)

    def give(
        self,
        parents: str,
        previous: int,
        upto: int,
        *,
        now: float = 0.0,
        is_repeated: bool = False,
    ) -> None:
        """Let parents bring a range with an event at its end."""
        for name in parents:
            range_ = make_range(previous, upto, upto)
            self.core.receive(name, range_, now, is_repeated=is_repeated)

    def acknowledge_to(self, parent: str) -> None:
        chain = self.core.find_chain(parent)
        assert chain is not None and self.core.current is not None
        chain.acknowledge(self.core.current)

    def observe(self, now: float = SETTLED_AFTER + 1.0) -> None:
        self._observer.observe("abc", now)

    def saved(self) -> dict[Hashable, tuple[int, float]]:
        """Return losses and ms that parents have saved."""
        return {
            name: (path.saved_losses, round(path.saved_seconds * 1e3, 6))
            for name, path in self.paths.items()
            if path.saved_losses or path.saved_seconds
        }

    def lost_by(self, *parents: str) -> LossCount:
        return self.losses.count(parents)


def test_an_event_is_lost_where_a_later_one_has_come_without_it() -> None:
    seen = Observed()
    seen.give("ab", 0, 1)
    seen.give("a", 1, 2)
    seen.give("abc", 2, 3)
    seen.observe(SETTLED_AFTER - 1.0)
    assert seen.lost_by("a").samples == 0
    seen.observe()
    seen.observe()
    assert [seen.lost_by(name) for name in "abc"] == [(3, 0), (3, 1), (3, 2)]
    assert seen.lost_by("b", "c") == (3, 1)


def test_an_event_that_came_only_when_it_was_requested_was_lost_by_all() -> None:
    seen = Observed()
    seen.give("abc", 1, 2)
    seen.give("ab", 0, 1, is_repeated=True)
    seen.observe()
    assert seen.lost_by("a", "b", "c") == (2, 1)


def test_nothing_is_known_of_a_parent_that_may_still_send() -> None:
    seen = Observed()
    seen.give("ab", 0, 1)
    seen.give("a", 1, 2)
    seen.observe()
    assert seen.lost_by("a") == (2, 0)
    assert seen.lost_by("b") == (1, 0)
    assert seen.lost_by("c") == (0, 0)


def test_nothing_is_known_of_events_that_a_parent_may_skip() -> None:
    seen = Observed()
    for an in (1, 2, 3):
        seen.give("a", an - 1, an)
    seen.acknowledge_to("b")
    seen.give("b", 3, 4)
    seen.give("a", 3, 4)
    seen.observe()
    assert (seen.lost_by("a"), seen.lost_by("b")) == ((4, 0), (1, 0))


def test_an_older_query_of_a_parent_does_not_count_as_loss() -> None:
    seen = Observed()
    seen.core.set_parent("a", 0, 1, 0.0)
    seen.core.require(0, 1, 0.0)
    seen.give("a", 0, 1)
    seen.give("abc", 1, 2)
    seen.observe()
    assert (seen.lost_by("a"), seen.lost_by("b")) == ((2, 0), (0, 0))


def test_the_only_copy_has_saved_a_loss_and_the_first_one_time() -> None:
    seen = Observed()
    seen.give("a", 0, 1, now=0.1)
    seen.give("b", 0, 1, now=0.13)
    seen.give("c", 0, 1, now=0.2)
    seen.give("a", 1, 2, now=0.3)
    seen.give("b", 2, 3, now=0.4)
    seen.give("ca", 2, 3, now=0.405)
    seen.observe()
    assert seen.saved() == {"a": (1, 30.0), "b": (0, 5.0)}


def test_retransmissions_save_nothing() -> None:
    seen = Observed()
    seen.give("abc", 1, 2, now=0.1)
    seen.give("b", 0, 1, now=0.2, is_repeated=True)
    seen.give("a", 0, 1, now=0.3)
    seen.observe()
    assert seen.saved() == {}


def test_events_that_another_parent_skipped_are_not_saved_and_not_lost() -> None:
    seen = Observed()
    for an in (1, 2, 3):
        seen.give("ac", an - 1, an)
    seen.acknowledge_to("b")
    seen.give("b", 3, 4)
    seen.give("c", 3, 4)
    seen.give("c", 5, 6)
    seen.give("ab", 4, 5)
    seen.observe()
    assert seen.saved() == {}
    counts = [(path.skipped, path.lost) for path in seen.paths.values()]
    assert counts == [(0, 1), (1, 0), (0, 1)]


def test_a_parent_alone_saves_nothing() -> None:
    seen = Observed()
    for name in "bc":
        del seen.paths[name]
        seen.core.remove_parent(name, 0.0)
    seen.give("a", 0, 1)
    seen.observe()
    assert seen.saved() == {} and seen.lost_by("a") == (1, 0)
