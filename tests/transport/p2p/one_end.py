from __future__ import annotations

from typing import TypeVar

from broker.transport.effects import (
    Effect,
    Failed,
    SendDown,
)
from broker.transport.p2p import P2PLayer, wire
from broker.transport.p2p.core import P2PCore
from broker.transport.p2p.wire import Resume
from broker.transport.view import LinkState, View

US = 7
PEER = 50
WINDOW = 10_000
UP = View(LinkState.CONNECTED)
DOWN = View(LinkState.DISCONNECTED)

E = TypeVar("E")


def new_core(**settings: float) -> P2PCore:
    defaults: dict[str, float] = {"window_bytes": WINDOW, "send_buffer_bytes": 20_000}
    return P2PLayer(incarnation=US, **(defaults | settings)).create_core()  # type: ignore[arg-type]


def said(
    incarnation: int = PEER,
    known: int = 0,
    received: int = 0,
    limit: int = WINDOW,
    window: int = WINDOW,
) -> bytes:
    return wire.encode_resume(Resume(incarnation, known, received, limit, window))


def open_core(core: P2PCore, greeting: bytes | None = None, now: float = 0.0) -> list[Effect]:
    """Open a new connection with the peer's RESUME; return the effects."""
    core.view_changed(UP, now)
    return core.receive([greeting if greeting is not None else said()], now)


def only(effects: list[Effect], kind: type[E]) -> E:
    found = [effect for effect in effects if isinstance(effect, kind)]
    assert len(found) == 1, effects
    return found[0]


def sent_data(effects: list[Effect]) -> list[tuple[int, bytes]]:
    """Return sequence numbers and messages of the DATA among the effects."""
    found = []
    for effect in effects:
        if isinstance(effect, SendDown):
            for packet in effect.packets:
                if packet[0] == wire.DATA:
                    _, fields, message = wire.decode_packet(packet)
                    found.append((fields[0], message))
    return found


def sent_kinds(effects: list[Effect]) -> list[int]:
    return [p[0] for effect in effects if isinstance(effect, SendDown) for p in effect.packets]


def failure(effects: list[Effect]) -> Exception:
    return only(effects, Failed).error
