"""Operations of an administrator on a router (`xmlbroker mesh`)."""

from __future__ import annotations

from typing import Final

from broker.errors import BadName
from plugins.dcp.parents import Parent
from plugins.dcp.router import Router

#: Children that are named.
_MOST_CHILDREN: Final = 64
_MOST_ALARMS: Final = 32
#: Elements of a parent's paths that are named.
_MOST_SHARED: Final = 16

ACTIONS: Final = ("show", "rebalance", "leave")


def operate(router: Router, action: str, now: float) -> dict[str, object]:
    """Carry out an action, and return the place of the node in its mesh.

    `rebalance` seeks better parents, `leave` lets the children find others. Both go on after the
    return, while `moving` is true, or `children` is not 0. Raises `BadName`.
    """
    if action not in ACTIONS:
        raise BadName(f"a mesh has no action {action[:64]!r}, only {', '.join(ACTIONS)}")
    if action == "rebalance":
        router.membership.rebalance(now)
    elif action == "leave":
        router.membership.leave(now)
    return describe(router)


def describe(router: Router) -> dict[str, object]:
    """Return the place of a node in its mesh, as plain values."""
    membership = router.membership
    standing = membership.standing
    names = sorted(each.name for each in router.children)
    return {
        "name": membership.name,
        "is_root": router.is_root,
        "level": standing.level,
        "paths": standing.paths,
        "resilience": max(0, standing.paths - 1),
        "wanted_parents": router.settings.parents,
        "diversity": dict(membership.diversity),
        "moving": membership.is_moving,
        "has_left": membership.has_left,
        "alarms": router.alarms.present[:_MOST_ALARMS],
        "children": len(names),
        "child_names": names[:_MOST_CHILDREN],
        "parents": [_describe_parent(each) for each in router.parents],
    }


def _describe_parent(parent: Parent) -> dict[str, object]:
    """Return the link from a parent, as this end has measured it, and the parent's standing."""
    return {
        **parent.connection.path.snapshot(),
        "name": parent.candidate.name,
        "level": parent.standing.level,
        "paths": parent.standing.paths,
        "shared": sorted(parent.standing.shared)[:_MOST_SHARED],
        "leaving": parent.is_leaving,
        "loss": round(parent.connection.liveness.loss, 4),
        "path_loss": round(parent.path_loss, 4),
    }
