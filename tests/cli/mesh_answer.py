"""The answer of a node about a small mesh."""

from __future__ import annotations

from typing import Any


def row(name: str, level: int, *parents: str, **more: Any) -> dict[str, Any]:
    return {
        "node": f"one/{name}",
        "name": name,
        "is_root": level == 0,
        "level": level,
        "resilience": 1,
        "wanted_parents": 2,
        "diversity": {},
        "children": 0,
        "child_names": [],
        "alarms": [],
        "parents": [link(each) for each in parents],
        **more,
    }


def link(parent: str, **more: Any) -> dict[str, Any]:
    return {
        "name": parent,
        "level": int(not parent.startswith("a")),
        "paths": 2,
        "shared": [f"node {parent}"],
        "loss": 0.0123,
        "round_trip_ms": 4.56,
        "first": 1_200,
        "saved_losses": 41,
        "saved_ms": 3_120.4,
        **more,
    }


def answer(**rows: dict[str, Any]) -> dict[str, Any]:
    """Return two roots, three routers and two leaves, with some rows replaced."""
    isp_a, isp_b = {"uplink": "isp-a"}, {"uplink": "isp-b"}
    nodes = {
        "a1": row("a1", 0, children=3),
        "a2": row("a2", 0, children=3),
        "b1": row("b1", 1, "a1", "a2", diversity=isp_a, children=1),
        "b2": row("b2", 1, "a1", "a2", diversity=isp_b, children=2),
        "b3": row("b3", 1, "a1", "a2", diversity=isp_b, children=1),
        "c1": row("c1", 2, "b1", "b2"),
        "c2": row("c2", 2, "b2", "b3", alarms=["the parents b2 and b3 share the uplink isp-b"]),
    }
    return {"stack": "asdi-mesh", "nodes": list({**nodes, **rows}.values()), "silent": []}
