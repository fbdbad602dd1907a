"""Rules across keys, checked once when a file has been read."""

from __future__ import annotations

from collections.abc import Iterator

from broker.config.endpoints import is_loopback
from broker.config.locate import KeyPath
from broker.config.settings import Settings
from broker.config.units import format_size


def contradictions(settings: Settings) -> Iterator[tuple[KeyPath, str]]:
    """The broken rules: the key to blame, and a sentence that names what it contradicts."""
    yield from _open_doors(settings)
    yield from _room_for_one_event(settings)


def _open_doors(settings: Settings) -> Iterator[tuple[KeyPath, str]]:
    if settings.accounts:
        return
    for index, endpoint in enumerate(settings.listen.endpoints):
        if not is_loopback(endpoint):
            yield (
                ("listen", "endpoints", index),
                f'listen.endpoints has "{endpoint}", which others can reach: without accounts '
                "every endpoint must be on loopback (interface=127.0.0.1, ::1 or localhost, "
                "or unix:); add an [accounts.NAME] table or change the interface",
            )


def _room_for_one_event(settings: Settings) -> Iterator[tuple[KeyPath, str]]:
    # Whatever can not hold the largest event would stop at it for ever.
    event = settings.limits.max_event_bytes
    for key, room in (
        (("limits", "max_frame_bytes"), settings.limits.max_frame_bytes),
        (("limits", "window_bytes"), settings.limits.window_bytes),
        (("queue", "bytes"), settings.queue.bytes),
        (("log", "max_bytes"), settings.log.max_bytes),
    ):
        if room < event:
            yield (
                key,
                f"{'.'.join(key)} is {format_size(room)}, but must hold the largest event: "
                f"limits.max_event_bytes is {format_size(event)}",
            )
