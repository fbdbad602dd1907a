"""Intermittent global order, and the places of late messages (RCM R16, R17, R35; L1; K19)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, combinations_with_replacement

import numpy

from broker.testing.order.run import Delivery, Moved, Process, Run
from broker.testing.order.timeline import FOREVER, Timeline
from broker.testing.order.violation import Property, Violation
from broker.transport.order import MessageId, Place
from broker.transport.order.history import History

#: The variant that keeps the order only where statuses are transitive.
SEQUENCER = "sequencer"
#: Seconds after which connected sites have told each other all places.
SETTLING = 3.0


def global_order(run: Run, timeline: Timeline) -> Iterator[Violation]:
    """Yield messages of connected sites that two of them got in different orders, or late.

    The set of sites is the two receivers and the two senders: an order that holds for all such
    sets holds for each larger one. They must see each other as connected from the first sending
    to the last delivery.
    """
    judged = Judge(run, timeline)
    streams = {
        process: [each for each in deliveries if judged.was_connected(process[0], each)]
        for process, deliveries in run.deliveries.items()
    }
    for process, moves in run.moves.items():
        for moved in moves:
            if judged.was_connected(process[0], moved):
                yield _violation(moved, f"{process[0]} moved a message of a connected site")
    for process, deliveries in streams.items():
        for each in deliveries:
            if each.late is not None:
                yield _violation(each, f"{process[0]} got a message of a connected site late")
    for one, other in combinations_with_replacement(sorted(streams), 2):
        if one[0] != other[0]:
            yield from _different_orders(judged, (one[0], streams[one]), (other[0], streams[other]))


class Judge:
    """Decides whether a property was promised to some sites for some time."""

    def __init__(self, run: Run, timeline: Timeline) -> None:
        self._run = run
        self._timeline = timeline
        self._needs_transitive = run.variant == SEQUENCER

    def was_connected(self, site: str, delivery: Delivery | Moved) -> bool:
        sent = self._run.sent.get(delivery.id)
        if sent is None:
            return False  # reliability reports it
        return self.were_connected({site, delivery.id.site}, sent.time, delivery.time)

    def were_connected(self, sites: set[str], begin: float, end: float) -> bool:
        timeline = self._timeline
        pairs = combinations_with_replacement(sorted(sites), 2)
        if not all(timeline.are_connected(*pair, begin, end) for pair in pairs):
            return False
        return not self._needs_transitive or all(
            timeline.is_transitive(site, begin, end) for site in sites
        )

    def first_sending(self, one: Delivery, other: Delivery) -> float:
        return min(self._run.sent[one.id].time, self._run.sent[other.id].time)


def _different_orders(
    judged: Judge, one: tuple[str, list[Delivery]], other: tuple[str, list[Delivery]]
) -> Iterator[Violation]:
    indexes = {each.id: index for index, each in enumerate(other[1])}
    common = [each for each in one[1] if each.id in indexes]
    order = numpy.array([indexes[each.id] for each in common], dtype=numpy.int64)
    if not common or bool((order[1:] > order[:-1]).all()):
        return
    inverted = numpy.triu(order[:, None] > order[None, :])
    for first, second in zip(*inverted.nonzero(), strict=True):
        pair = common[first], common[second]
        theirs = other[1][order[first]], other[1][order[second]]
        sites = {one[0], other[0], *(each.id.site for each in pair)}
        end = max(pair[1].time, theirs[0].time)
        if judged.were_connected(sites, judged.first_sending(*pair), end):
            text = f"{one[0]} got it before {pair[1].id}, and {other[0]} after that"
            yield _violation(pair[0], text)


def places(run: Run, timeline: Timeline) -> Iterator[Violation]:
    """Yield messages that are late and not marked so, or the reverse, and wrong neighbours."""
    for process, deliveries in run.deliveries.items():
        history = History(len(deliveries))
        stamps: dict[object, MessageId] = {}
        for each in _events(run, process):
            if isinstance(each, Moved):
                stamps.pop((each.before, each.id.number), None)
                if each.before is None or not history.remove(each.before, each.id):
                    yield _violation(each, f"{process[0]} moved it, and it was not there")
            place = history.add(each.stamp, each.id)
            same = stamps.setdefault((each.stamp, each.id.number), each.id)
            if same is not each.id:
                yield _violation(each, f"{process[0]} got its stamp with {same} before")
            elif place != each.late:
                yield _violation(each, f"{_text(place)} at {process[0]}, not {_text(each.late)}")


def transcripts(run: Run, timeline: Timeline) -> Iterator[Violation]:
    """Yield messages that have different places at two sites, which are connected in the end."""
    stamps: dict[Process, dict[MessageId, Delivery | Moved]] = {
        process: {each.id: each for each in _events(run, process)}
        for process in run.deliveries
        if timeline.lives[process][1] == FOREVER
    }
    judged, settled = Judge(run, timeline), run.end - SETTLING
    for one, other in combinations(sorted(stamps), 2):
        if not judged.were_connected({one[0], other[0]}, settled, run.end):
            continue
        for id, each in stamps[one].items():
            theirs = stamps[other].get(id)
            if theirs is not None and theirs.stamp != each.stamp:
                text = f"{each.stamp} at {one[0]}, and {theirs.stamp} at {other[0]}"
                yield _violation(max(each, theirs, key=lambda each: each.time), text)


def _events(run: Run, process: Process) -> Iterator[Delivery | Moved]:
    """Yield deliveries and moves of a process in their order."""
    deliveries, begin = run.deliveries[process], 0
    for moved in run.moves[process]:
        yield from deliveries[begin : moved.position]
        yield moved
        begin = moved.position
    yield from deliveries[begin:]


def _text(place: Place | None) -> str:
    return "in time" if place is None else f"late, between {place.before} and {place.after}"


def _violation(delivery: Delivery | Moved, text: str) -> Violation:
    id = delivery.id
    name = f"{id.site}/{id.incarnation} #{id.number}"
    return Violation(delivery.time, Property.GLOBAL_ORDER, f"{name}: {text}")
