"""The model of one room: its transcript, its members, and the sites of its group."""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs

from broker.cli.chat_room.message import Presence, read_chat
from broker.cli.chat_room.own_lines import Arrivals, OwnLines, SettledLine
from broker.cli.chat_room.transcript import MOST_LINES, ChatLine, Insertion, Transcript
from broker.client.received import ReceivedEvent
from broker.event.event_id import EventId
from broker.event.site_notice import (
    MissingMessages,
    MovedMessages,
    SiteCoverage,
    SiteNotice,
    SiteStatus,
)

#: Beyond it the ones unseen for longest go.
MOST_MEMBERS: Final = 1_000
#: The first ones stay.
MOST_SITES: Final = 256
#: Seconds between two messages by which a client shows that it is present.
PRESENCE_PERIOD: Final = 300.0
#: Milliseconds after which a silent member is gone.
MEMBER_LIFETIME: Final = 900_000


@attrs.frozen
class Member:
    """A client in the room."""

    author: str
    site: str
    """Empty for a stream without an order of sites."""
    newest: EventId
    seen: int
    """Time of its newest message, in ms since 1970."""
    has_left: bool = False


#: It changes what a room shows.
RoomNotice: TypeAlias = SiteStatus | MissingMessages | Insertion | SiteCoverage | SettledLine


class Room:
    """Takes events and notices in any order, and the time as ms since 1970."""

    def __init__(self, most_lines: int = MOST_LINES, own_client: str = "") -> None:
        """`own_client` is the ClientId of own messages."""
        self.transcript = Transcript(most_lines)
        self.statuses: dict[tuple[str, str], SiteStatus] = {}
        """By stack and site, as told last."""
        self.unreadable = 0
        """Events that are no chat messages."""
        self._own = OwnLines(own_client, self.transcript, self.statuses)
        self._members: dict[str, Member] = {}
        """By ClientId."""

    def add_event(self, event: ReceivedEvent, now: int) -> Insertion | None:
        """Return the new line; None if it adds none."""
        message = read_chat(event.payload)
        if message is None:
            self.unreadable += 1
            return None
        self._note_member(event, message.author, message.presence, now)
        if message.presence is Presence.PRESENT:
            return None
        return self.transcript.add_message(event, message)

    def add_notice(self, notice: SiteNotice) -> list[RoomNotice]:
        """Return the notice, or its parts that are new, or the lines that it moves or settles."""
        if isinstance(notice, MovedMessages):
            return list(self.transcript.move_messages(notice))
        if isinstance(notice, MissingMessages):
            return list(self.transcript.add_missing(notice))
        key = notice.stack, notice.site
        if isinstance(notice, SiteCoverage):
            if not notice.covered:
                # It is the node's own site. The client may have been at another node before.
                self.statuses.pop(key, None)
            self._own.add_coverage(notice)
        elif key in self.statuses or len(self.statuses) < MOST_SITES:
            self.statuses[key] = notice
        return [notice, *self._own.settle()]

    def add_own(self, line: ChatLine) -> list[SettledLine]:
        """Follow the arrivals of a new line if it is an own message. Return it if it is settled."""
        return self._own.add_line(line)

    def arrivals_of(self, line: ChatLine) -> Arrivals | None:
        """Return the sites of an own message, as far as they are told."""
        return self._own.arrivals_of(line)

    def members(self, now: int) -> list[Member]:
        """Return the present ones by site and name."""
        present = [each for each in self._members.values() if _is_present(each, now)]
        return sorted(present, key=lambda each: (each.site, each.author, each.newest))

    def status_of(self, site: str) -> str:
        """Return the state of a site; empty for this one, and unknown ones."""
        return next((each.state for key, each in self.statuses.items() if key[1] == site), "")

    def _note_member(
        self, event: ReceivedEvent, author: str, presence: Presence | None, now: int
    ) -> None:
        id = event.event_id
        known = self._members.get(id.client_id)
        if known is not None and _age_of(known.newest) >= _age_of(id):
            return
        site = "" if event.order is None else event.order.site
        # A publisher's clock may be ahead.
        member = Member(author, site, id, min(id.timestamp, now), presence is Presence.LEFT)
        if presence is not Presence.LEFT and not _is_present(member, now):
            return
        self._members[id.client_id] = member
        if len(self._members) > MOST_MEMBERS:
            oldest = min(self._members, key=lambda each: self._members[each].seen)
            del self._members[oldest]


def _age_of(id: EventId) -> tuple[int, int]:
    return id.incarnation, id.sequence_number


def _is_present(member: Member, now: int) -> bool:
    return not member.has_left and now - member.seen < MEMBER_LIFETIME
