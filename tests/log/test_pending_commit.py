"""What waits for a commit: each kind of content makes one, and none is dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.log.commit import Keeping
from broker.log.pending_commit import Gathering
from broker.log.history import Loss
from tests.recovery.test_log_merge import logged

EVENT = logged("own", 1, 1, "p", 1)
LOSS = Loss((1, 1), (1, 3), (1, 0), (1, 2))


def nothing(_: Any) -> None:
    """Nobody is told."""


@pytest.mark.parametrize(
    "fill",
    [
        lambda it: it.commit.events.append(EVENT),
        lambda it: it.commit.durables.append((b"key", None)),
        lambda it: it.commit.clients.append(("client", b"1")),
        lambda it: it.commit.losses.append(LOSS),
        lambda it: it.commit.keeping.append(Keeping("far", (0, 0), (1, 1), [EVENT])),
        lambda it: it.add([], ("far", (1, 1)), nothing),
    ],
    ids=["events", "durables", "clients", "losses", "keeping", "covered"],
)
def test_each_kind_of_content_is_written(fill: Callable[[Gathering], object]) -> None:
    gathering = Gathering()
    assert gathering.empty
    fill(gathering)
    assert not gathering.empty


def test_events_count_by_their_bytes() -> None:
    gathering = Gathering()
    gathering.add([EVENT, EVENT], None, nothing)
    gathering.add([EVENT], ("own", (1, 3)), nothing)
    assert gathering.size == 3 * len(EVENT.document)
    assert gathering.commit.covered == {"own": (1, 3)}
    assert [len(events) for _, events in gathering.told] == [2, 1]


def test_state_of_a_failed_commit_goes_with_the_next_one() -> None:
    failed, later = Gathering(), Gathering()
    failed.commit.durables.append((b"key", b"value"))
    failed.commit.clients.append(("client", b"1"))
    failed.stored.append(lambda: None)
    failed.add([EVENT], None, nothing)
    later.keep_state(failed)
    assert (later.commit.durables, later.commit.clients) == (
        [(b"key", b"value")],
        [("client", b"1")],
    )
    assert later.stored == failed.stored
    # Events are refused to who sent them, and come again.
    assert later.commit.events == [] and later.told == []
