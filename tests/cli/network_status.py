from __future__ import annotations

from typing import Any


def status_of(name: str, *, published: int = 10, sent: int = 100) -> dict[str, Any]:
    """Return the status of a node with one link."""
    return {
        "node": name,
        "published": {"received": published, "accepted": published},
        "delivered": {"delivered": 7},
        "sessions": [{}, {}],
        "network": {
            "name": "test",
            "address": f"alps/{name}",
            "leads": ["alps"] if name == "a1" else [],
            "leader": "a1",
            "members": [
                {"node": "a1", "reachable": True, "draining": False},
                {"node": "a2", "reachable": True, "draining": True},
                {"node": "a3", "reachable": False, "draining": False},
            ],
            "units": [
                {
                    "unit": "coast",
                    "wants_known": False,
                    "next_hop": "a2",
                    "gateways": [{"near": "alps/a2", "far": "coast/c1", "cost": 1}],
                }
            ],
            "links": [
                {
                    "node": "c1",
                    "address": "coast/c1",
                    "peer": "192.0.2.7:4000",
                    "transport": "udp",
                    "trusted": False,
                    "up": True,
                    "sent": sent,
                    "sent_bytes": 10 * 1024 * sent,
                    "received": 5,
                    "received_bytes": 2048,
                    "full": 3,
                    "reconnections": 2,
                    "corrections": {"lost": 41, "repeated": 42},
                }
            ],
            "relayed": {"received": 9, "logged": 8, "refused": {"not-valid": 1}},
            "frames": {"begun": 20, "transit": 30, "stuck": 4},
            "arrivals": {"taken": 6, "holes": 1, "waiting": 0},
        },
    }


def recovery(*, behind: int | None = 12, problem: str = "", replays: bool = True) -> dict[str, Any]:
    return {
        "archive": {
            "uri": "/a",
            "runs": True,
            "problem": problem,
            "restarts": 1,
            "events": 4_000,
            "bytes": 3 << 20,
            "archived": {"abc": "1:4000"},
            "behind": behind,
        },
        "replays": {"runs": replays, "engine": "local", "jobs": 3, "notices": ["no Java", "slow"]},
        "recoveries": {
            "begun": 9,
            "under_way": 2,
            "lost_places": 5,
            "events": {"log": 1, "former": 20, "logs": 300, "archive": 4_000},
        },
        "hand_offs": {"handed_over": 1, "taken_over": 2},
        "pages": {"served": 77, "denied": 0},
    }
