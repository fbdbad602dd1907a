"""The table at the end, and the promises that it judges."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table

from broker.event.event_id import EventId
from broker.event.order_entry import MessageId
from broker.event.site_notice import MissingMessages
from examples.chat.scripted_user import ScriptedUser


class Verdict:
    """Compares the screens of all users after the last repair."""

    def __init__(self, users: Sequence[ScriptedUser]) -> None:
        self._users = users
        self._ids: dict[EventId, MessageId] = {}
        for user in users:
            self._ids |= user.ids

    def unexplained(self, user: ScriptedUser) -> list[EventId]:
        """Return messages that a screen lacks without a notice."""
        shown = user.ids
        expected = {id for each in self._users for id in each.sent} | self._ids.keys()
        missing = user.room.transcript.missing
        return [
            id
            for id in expected
            if id not in shown and not _is_reported(self._ids.get(id), missing)
        ]

    @property
    def is_complete(self) -> bool:
        return not any(self.unexplained(user) for user in self._users)

    def missing(self, user: ScriptedUser) -> int:
        return sum(each.last - each.first + 1 for each in user.room.transcript.missing)

    def is_equal(self, user: ScriptedUser) -> bool:
        """True if each screen has this one's messages in the same order, but for missing ones."""
        own = [line.event_id for line in user.room.transcript.messages]
        for other in self._users:
            shared = other.ids.keys() & set(own)
            theirs = [line.event_id for line in other.room.transcript.messages]
            if [id for id in own if id in shared] != [id for id in theirs if id in shared]:
                return False
        return not self.unexplained(user)

    def table(self) -> Table:
        sent = sum(len(user.sent) for user in self._users)
        table = Table(title=f"{sent} messages of six users", box=box.SIMPLE, pad_edge=False)
        for heading in ("site", "user"):
            table.add_column(heading)
        for heading in ("in time", "late", "missing", "twice", "order violations", "transcript"):
            table.add_column(heading, justify="right")
        for user in self._users:
            screen = user.screen
            counts = (
                *(screen.in_time, len(screen.late), self.missing(user)),
                *(user.repeated, len(screen.violations)),
            )
            equal = "equal" if self.is_equal(user) else "different"
            table.add_row(user.site, user.name, *map(str, counts), equal)
        return table

    def broken_promises(self) -> list[str]:
        found = []
        for user in self._users:
            who = f"{user.name} at {user.site}"
            found += [f"{who}: {each}" for each in user.screen.violations[:3]]
            found += [f"{who}: not sent: {each}" for each in user.errors[:3]]
            if user.repeated:
                found.append(f"{who} got {user.repeated} messages twice")
            if lost := self.unexplained(user):
                found.append(f"{who} misses {len(lost)} messages without a notice: {lost[0]}")
            elif not self.is_equal(user):
                found.append(f"{who} has another order")
        return found


def _is_reported(id: MessageId | None, missing: Sequence[MissingMessages]) -> bool:
    return id is not None and any(
        (each.site, each.incarnation) == id[:2] and each.first <= id[2] <= each.last
        for each in missing
    )
