"""The split of a commit equals delivery of each event by itself."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from broker.delivery.commit_share import CommitShare
from broker.delivery.commit_split import split_commit
from broker.delivery.feed import Feed
from broker.log.logged_event import LoggedEvent

LINKS = {number: "abc"[number % 3] for number in range(9)}
FEEDS = {
    number: Feed(number, matcher_number=number, is_durable=False, cut=0, cursor=1)
    for number in LINKS
}
SUBSCRIBERS = {number: (LINKS[number], FEEDS[number]) for number in LINKS}

#: One of the subscriptions has ended.
numbers = st.lists(st.integers(0, 9), unique=True).map(sorted).map(tuple)
matches = st.lists(numbers | st.sampled_from([tuple(range(9)), (1,), (1, 2)]), max_size=12)


def committed(count: int) -> list[LoggedEvent]:
    return [
        LoggedEvent(1, offset, 0, 0, b"", b"<e/>", "n", offset) for offset in range(1, count + 1)
    ]


def spread(share: CommitShare) -> list[tuple[LoggedEvent, list[Feed]]]:
    feeds = itertools.chain.from_iterable([list(each)] * count for count, each in share.runs)
    return list(zip(share.events, feeds, strict=True))


@given(matches)
def test_each_session_gets_its_matching_events_in_order(
    matched: list[tuple[int, ...]],
) -> None:
    events = committed(len(matched))
    expected: dict[str, list[tuple[LoggedEvent, list[Feed]]]] = {}
    for event, each in zip(events, matched, strict=True):
        for link, own in itertools.groupby(
            sorted(set(each) & LINKS.keys(), key=lambda number: (LINKS[number], number)),
            key=LINKS.__getitem__,
        ):
            expected.setdefault(link, []).append((event, [FEEDS[number] for number in own]))
    shares = split_commit(events, matched, SUBSCRIBERS)
    assert {link: spread(share) for link, share in shares.items()} == expected


def test_sessions_with_the_same_events_share_one_list_and_one_run() -> None:
    events = committed(4)
    # A rare query does not change the shares of sessions with all events.
    shares = split_commit(events, [(0, 1), (0, 1, 5), (0, 1), (0, 1)], SUBSCRIBERS)
    assert shares["a"].events is shares["b"].events is events
    assert list(shares["a"].runs) == [(4, [FEEDS[0]])]
    assert spread(shares["c"]) == [(events[1], [FEEDS[5]])]


def test_sessions_with_the_same_part_share_one_list_too() -> None:
    shares = split_commit(committed(3), [(0, 1), (), (0, 1)], SUBSCRIBERS)
    assert shares["a"].events is shares["b"].events
    assert [event.offset for event in shares["a"].events] == [1, 3]
