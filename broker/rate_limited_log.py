"""What goes wrong again and again, told so that a person can read it.

Each trouble is told when it comes first, and as long as it goes on ever less often, with the
number of times: a node that is left alone with a dead seed for a night has some dozens of lines.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

import attrs

#: Seconds until what goes on is told again: doubled up to the longest.
SHORTEST_SILENCE: Final = 60.0
LONGEST_SILENCE: Final = 3600.0
#: Troubles remembered at once: strangers can make no more of them. Others are counted by `untold`.
MOST_TROUBLES: Final = 256
#: What a peer says of itself is told no further than this many characters.
MOST_TEXT: Final = 400


@attrs.define
class _Trouble:
    text: str
    since: float
    told_at: float
    last: float
    silence: float = SHORTEST_SILENCE
    times: int = 1


class Troubles:
    """Troubles by place and kind, on their way to a log."""

    def __init__(self, tell: Callable[[str], object], now: Callable[[], float]) -> None:
        """`tell` is given a line; `now` is monotonic, in seconds."""
        self._tell = tell
        self._now = now
        self._troubles: OrderedDict[tuple[Hashable, Hashable], _Trouble] = OrderedDict()
        self.untold = 0
        """Troubles for which there was no room."""

    def came(self, place: Hashable, kind: Hashable, text: str) -> None:
        """There is trouble, maybe not for the first time. Who tells the same place and kind with
        another text than before is heard after the shortest silence."""
        now, text = self._now(), readable(text)
        known = self._troubles.get((place, kind))
        if known is None or now - known.last >= 2 * LONGEST_SILENCE:
            self._begin((place, kind), _Trouble(text, now, now, now))
            return
        known.times += 1
        known.last = now
        self._troubles.move_to_end((place, kind))
        other = text != known.text
        if now - known.told_at < (SHORTEST_SILENCE if other else known.silence):
            return
        self._tell(f"{text} ({known.times} times in {_span(now - known.since)})")
        known.text, known.told_at = text, now
        known.silence = SHORTEST_SILENCE if other else min(LONGEST_SILENCE, 2 * known.silence)

    def over(self, place: Hashable) -> None:
        """All is well there: what comes from now on is told again."""
        for key in [key for key in self._troubles if key[0] == place]:
            del self._troubles[key]

    def _begin(self, key: tuple[Hashable, Hashable], trouble: _Trouble) -> None:
        self._troubles.pop(key, None)
        if len(self._troubles) >= MOST_TROUBLES:
            oldest = next(iter(self._troubles))
            if trouble.since - self._troubles[oldest].last < LONGEST_SILENCE:
                self.untold += 1
                return
            del self._troubles[oldest]
        self._troubles[key] = trouble
        self._tell(trouble.text)


def readable(text: str) -> str:
    """One line without anything that a terminal would obey."""
    line = "".join(each if each.isprintable() else "?" for each in text[:MOST_TEXT])
    return line if len(text) <= MOST_TEXT else line + "..."


def _span(seconds: float) -> str:
    for unit, length in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
