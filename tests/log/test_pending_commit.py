from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.log.commit import ReplicaBatch
from broker.log.history import BranchLoss
from broker.log.pending_commit import PendingCommit
from tests.recovery.test_log_merge import logged

EVENT = logged("own", 1, 1, "p", 1)
LOSS = BranchLoss((1, 1), (1, 3), (1, 0), (1, 2))


def nothing(_: Any) -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    "fill",
    [
        lambda it: it.commit.events.append(EVENT),
        lambda it: it.commit.durables.append((b"key", None)),
        lambda it: it.commit.clients.append(("client", b"1")),
        lambda it: it.commit.losses.append(LOSS),
        lambda it: it.commit.replicas.append(ReplicaBatch("far", (0, 0), (1, 1), [EVENT])),
        lambda it: it.add_events([], ("far", (1, 1)), nothing),
    ],
    ids=["events", "durables", "clients", "losses", "keeping", "covered"],
)
def test_each_kind_of_content_is_written(fill: Callable[[PendingCommit], object]) -> None:
    gathering = PendingCommit()
    assert gathering.is_empty
    fill(gathering)
    assert not gathering.is_empty


def test_events_count_by_their_bytes() -> None:
    gathering = PendingCommit()
    gathering.add_events([EVENT, EVENT], None, nothing)
    gathering.add_events([EVENT], ("own", (1, 3)), nothing)
    assert gathering.document_bytes == 3 * len(EVENT.document)
    assert gathering.commit.covered == {"own": (1, 3)}
    assert [len(events) for _, events in gathering.callbacks] == [2, 1]


def test_state_of_a_failed_commit_goes_with_the_next_one() -> None:
    failed, later = PendingCommit(), PendingCommit()
    failed.commit.durables.append((b"key", b"value"))
    failed.commit.clients.append(("client", b"1"))
    failed.state_callbacks.append(lambda: None)
    failed.add_events([EVENT], None, nothing)
    later.take_state(failed)
    assert (later.commit.durables, later.commit.clients) == (
        [(b"key", b"value")],
        [("client", b"1")],
    )
    assert later.state_callbacks == failed.state_callbacks
    # The publisher sends refused events again.
    assert later.commit.events == [] and later.callbacks == []
