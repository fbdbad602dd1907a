"""Merges the logs of several origins: in origin order, in publisher order, else by arrival.

Clocks differ and publishers move between nodes, so arrival alone would misorder.
`broker.replay.ordering` does the same for columns of an archive.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import msgpack

from broker.log.logged_event import LoggedEvent

#: ClientId, incarnation.
_Publisher: TypeAlias = tuple[str, int]


def merge_logs(logs: Mapping[str, Sequence[LoggedEvent]]) -> Iterator[LoggedEvent]:
    """If the orders contradict each other, that of the origins holds."""
    queues = {
        origin: deque((_publication(event), event) for event in events)
        for origin, events in logs.items()
        if events
    }
    to_come: dict[_Publisher, list[int]] = defaultdict(list)
    for queue in queues.values():
        for (publisher, number), _ in queue:
            to_come[publisher].append(number)
    for numbers in to_come.values():
        heapq.heapify(numbers)
    heads = [(queue[0][1].arrival, origin) for origin, queue in queues.items()]
    heapq.heapify(heads)
    while heads:
        behind: list[tuple[int, str]] = []
        chosen = first = heads[0]
        while heads:
            chosen = heapq.heappop(heads)
            publisher, number = queues[chosen[1]][0][0]
            if number <= to_come[publisher][0]:
                break
            behind.append(chosen)
        else:
            chosen = first
            behind.remove(first)
        for each in behind:
            heapq.heappush(heads, each)
        queue = queues[chosen[1]]
        (publisher, number), event = queue.popleft()
        numbers = to_come[publisher]
        if numbers[0] == number:
            heapq.heappop(numbers)
        else:
            numbers.remove(number)
            heapq.heapify(numbers)
        yield event
        if queue:
            heapq.heappush(heads, (queue[0][1].arrival, chosen[1]))


def _publication(event: LoggedEvent) -> tuple[_Publisher, int]:
    client_id, _, number, incarnation, *_ = msgpack.unpackb(event.record)
    return (client_id, incarnation), number
