"""What durable subscriptions still need of an archive."""

from __future__ import annotations

from collections.abc import Callable

from broker.archive.archive import Archive
from broker.archive.retention import Needed
from broker.errors import BadName
from broker.event.place import Position
from broker.event.stream import StreamPattern
from broker.subscriptions.durables import Durable


def needed_by_durables(
    archive: Archive, complain: Callable[[str], object] = lambda text: None
) -> list[Needed]:
    """What those that are kept in the archive have not processed yet.

    One that can not be read needs everything, and so does a page of them that can not.
    """
    needed = []
    for (client, name), (_, stored, _) in archive.durables().items():
        try:
            durable = Durable.decode(stored)
            needed.append(Needed(StreamPattern.parse(durable.pattern), durable.position))
        except (ValueError, TypeError, BadName) as error:
            complain(f"{name} of {client} can not be read, and so holds everything: {error}")
            needed.append(_EVERYTHING)
    for path, why in archive.damaged_durables().items():
        complain(f"{path} {why}, and so holds everything")
        needed.append(_EVERYTHING)
    return needed


_EVERYTHING = Needed(StreamPattern.parse(">"), Position())
