"""Split of a commit among sessions (DCP D21).

The cost depends on the number of distinct sets of matches, not of events. Sessions with the same
events share one list.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from itertools import groupby
from typing import TypeAlias, TypeVar

from broker.delivery.commit_share import CommitShare
from broker.delivery.feed import Feed
from broker.log.logged_event import LoggedEvent

_Owner = TypeVar("_Owner", bound=Hashable)
#: (index of a set of matches, one owner's feeds).
_Part: TypeAlias = tuple[int, list[Feed]]
#: (events, the index of each event's part).
_Merged: TypeAlias = tuple[list[LoggedEvent], list[int]]


def split_commit(
    events: list[LoggedEvent],
    matches: Sequence[tuple[int, ...]],
    subscribers: Mapping[int, tuple[_Owner, Feed]],
) -> dict[_Owner, CommitShare]:
    """Matches of ended subscriptions are ignored."""
    if not matches:
        return {}
    if matches.count(matches[0]) == len(matches):
        shares: dict[_Owner, CommitShare] = {}
        for number in matches[0]:
            found = subscribers.get(number)
            if found is None:
                continue
            owner, feed = found
            share = shares.get(owner)
            if share is None:
                shares[owner] = CommitShare(events, deque(((len(events), [feed]),)))
            else:
                share.runs[0][1].append(feed)
        return shares
    groups = _group_by_matches(matches)
    parts: dict[_Owner, list[_Part]] = {}
    for index, numbers in enumerate(groups):
        for number in numbers:
            found = subscribers.get(number)
            if found is None:
                continue
            owner, feed = found
            owner_parts = parts.setdefault(owner, [])
            if owner_parts and owner_parts[-1][0] == index:
                owner_parts[-1][1].append(feed)
            else:
                owner_parts.append((index, [feed]))
    places = list(groups.values())
    merged: dict[tuple[int, ...], _Merged] = {}
    shares = {}
    for owner, owner_parts in parts.items():
        key = tuple([index for index, _ in owner_parts])
        merged_part = merged.get(key)
        if merged_part is None:
            merged_part = merged[key] = _merge_groups(events, [places[index] for index in key])
        shares[owner] = _build_share(merged_part, owner_parts)
    return shares


def _group_by_matches(matches: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], Sequence[int]]:
    """Return the indices of the events, by set of matches."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for place, numbers in enumerate(matches):
        if numbers:
            groups.setdefault(numbers, []).append(place)
    return {**groups}


def _merge_groups(events: list[LoggedEvent], groups: list[Sequence[int]]) -> _Merged:
    if len(groups) == 1:
        places = groups[0]
        whole = len(places) == len(events)
        return events if whole else [events[place] for place in places], []
    order = sorted((place, part) for part, places in enumerate(groups) for place in places)
    if len(order) == len(events):
        return events, [part for _, part in order]
    return [events[place] for place, _ in order], [part for _, part in order]


def _build_share(merged: _Merged, owner_parts: list[_Part]) -> CommitShare:
    events, order = merged
    feeds = [feeds for _, feeds in owner_parts]
    if all(each == feeds[0] for each in feeds):
        return CommitShare(events, deque([(len(events), feeds[0])]))
    runs = groupby([feeds[part] for part in order])
    return CommitShare(events, deque([(len(list(group)), same) for same, group in runs]))
