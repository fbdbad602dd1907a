"""Check of the deliveries of one site, one by one: order of each sender, and marks of late ones."""

from __future__ import annotations

from broker.transport.order.packet import MessageId, Stamp


class DeliveryCheck:
    """States what must hold at one site alone, with memory for the last message of each site.

    Messages of a site come once and in the order of their numbers. The stamps of messages in time
    rise, and late is exactly what comes behind a higher stamp.
    """

    def __init__(self, *, has_lost_commits: bool = False) -> None:
        """With lost commits, messages may be late behind others that were not logged."""
        self.highest: tuple[Stamp, int] | None = None
        """Stamp and number of the highest message so far."""
        self._has_lost_commits = has_lost_commits
        self._is_lowered = False
        self._last: dict[str, tuple[int, int]] = {}

    def check(self, id: MessageId, stamp: Stamp | None, *, is_late: bool) -> str | None:
        """Return what is wrong with a delivery; None if nothing is."""
        site, incarnation, number = id
        place, last = (incarnation, number), self._last.get(site)
        wrong = None
        if last is not None and place <= last:
            wrong = f"{text_of(id)} came behind {last[0]}/{last[1]} of its site"
        else:
            self._last[site] = place
        if stamp is None:
            return wrong
        key, highest = (stamp, number), self.highest
        if highest is None or key > highest:
            self.highest = key
            self._is_lowered = False
            if is_late and not self._has_lost_commits:
                wrong = wrong or f"{text_of(id)} is not late"
        elif not is_late and not self._is_lowered:
            wrong = wrong or f"{text_of(id)} is late behind {highest[0].time}"
        return wrong

    def take_back(self, id: MessageId) -> None:
        """Handle that a delivered message was not logged after all. It comes again."""
        place = id[1:]
        self._last[id.site] = min(self._last.get(id.site, place), (place[0], place[1] - 1))
        self.lower()

    def lower(self) -> None:
        """Handle that a delivered message has a lower place, or none, from now on."""
        # The highest one that counts is not known any more.
        self._is_lowered = True


def text_of(id: MessageId) -> str:
    return "/".join(map(str, id))
