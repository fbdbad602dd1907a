"""Union of the answers to one page request that no signature proves, over different routes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from broker.event.place import Mark
from broker.log.logged_event import LoggedEvent
from broker.recovery.log_page_reader import Page


def unite_pages(pages: Sequence[Page], serial: int) -> Page:
    """Return the events of all pages, with the least that they state about others.

    Some pages may be those of nodes on the way, which hide events. `serial` is that of the request.
    """
    events: dict[tuple[str, Mark], LoggedEvent] = {}
    for page in pages:
        for event in page.events:
            events.setdefault((event.origin, event.mark), event)
    origins = {each.origin for each in pages}
    return Page(
        [events[each] for each in sorted(events)],
        {origin: min(marks) for origin, marks in _shared([each.reached for each in pages])},
        _next_serial([each.next_serial for each in pages if each.next_serial], serial),
        begins={o: min(m) for o, m in _shared([each.begins for each in pages]) if len({*m}) == 1},
        origin=origins.pop() if len(origins) == 1 else "",
        is_proven=False,
    )


def _next_serial(named: Sequence[int], serial: int) -> int:
    """The pages of a replica have all the same serial."""
    return min((each for each in named if each > serial), default=max(named, default=0))


def _shared(marks: Sequence[Mapping[str, Mark]]) -> Iterator[tuple[str, list[Mark]]]:
    """Yield the origins that all pages name, with their marks."""
    for origin in marks[0]:
        if all(origin in each for each in marks):
            yield origin, [each[origin] for each in marks]
