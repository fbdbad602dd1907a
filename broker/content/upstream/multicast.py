"""Children that want the same share a multicast group (D55, X14)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

import attrs

from broker.content.upstream.want import Want

Link = TypeVar("Link", bound=Hashable)


@attrs.frozen(slots=True)
class Classes(Generic[Link]):
    """Query classes: the links of each group want the same; the others are served one by one."""

    groups: tuple[frozenset[Link], ...]
    unicast: frozenset[Link]


def classes(links: Mapping[Link, frozenset[Want]], max_groups: int) -> Classes[Link]:
    """Group links by their unions (`Union.sent`), at most `max_groups` groups of two or more.

    The largest groups are kept; of equal ones, the first by what they want. Links that want nothing
    are in none.
    """
    alike: dict[frozenset[Want], set[Link]] = {}
    for link, wants in links.items():
        if wants:
            alike.setdefault(wants, set()).add(link)
    ranked = sorted(
        alike.items(),
        key=lambda entry: (-len(entry[1]), sorted(want.rank for want in entry[0])),
    )
    shared = [links for _, links in ranked if len(links) > 1][: max(0, max_groups)]
    grouped = {link for group in shared for link in group}
    single = {link for _, links in ranked for link in links} - grouped
    return Classes(tuple(map(frozenset, shared)), frozenset(single))
