"""Tree of the destinations along which a message is passed on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

import attrs

from broker.errors import ProtocolError
from broker.transport.multicast.wire import Route

#: Sites that get the body from the sender itself, and from a site in between.
ROOT_DEGREE: Final = 2
INNER_DEGREE: Final = 4


@attrs.define
class _Branch:
    name: str
    branches: list[_Branch] = attrs.field(factory=list)

    @property
    def route(self) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        for each in self.branches:
            behind = each.route
            found += [(each.name, len(behind)), *behind]
        return found


def build_tree(
    root: str,
    sites: Collection[str],
    views: Mapping[str, Collection[str]],
    degree: int = ROOT_DEGREE,
) -> dict[str, Route]:
    """Return the `degree` sites that get the body from `root`, each with the route behind it.

    A site passes a body on to another one only if each sees the other as connected, by `views`.
    Sites in no route need copies. Roots prefer different sites, those behind their own name.
    """
    wanted = set(sites)
    left = sorted(wanted, key=lambda name: (name < root, name))

    def are_linked(one: str, other: str) -> bool:
        return other in views.get(one, ()) and one in views.get(other, ())

    reach = {name: sum(are_linked(name, other) for other in wanted) for name in left}
    branches = [_Branch(name) for name in sorted(left, key=lambda name: -reach[name])[:degree]]
    for branch in branches:
        left.remove(branch.name)
    level = branches
    while level:
        open_branches = level
        while open_branches:
            # One site for each in turn: all have about as many.
            growing = []
            for branch in open_branches:
                name = next((each for each in left if are_linked(branch.name, each)), None)
                if name is not None:
                    left.remove(name)
                    branch.branches.append(_Branch(name))
                    growing.append(branch)
            open_branches = [each for each in growing if len(each.branches) < INNER_DEGREE]
        level = [each for branch in level for each in branch.branches]
    return {branch.name: branch.route for branch in branches}


def split_route(route: Route) -> Iterator[tuple[str, Route]]:
    """Yield the next sites of a route, each with the route behind it. Raises `ProtocolError`."""
    place = 0
    while place < len(route):
        name, count = route[place]
        end = place + 1 + count
        if end > len(route):
            raise ProtocolError(f"a route has {count} sites behind {name}, and ends before")
        yield name, route[place + 1 : end]
        place = end
