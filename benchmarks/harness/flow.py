"""Measured runs: events from one publisher, through a broker, to all its subscribers."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from benchmarks.harness.actor import Actor
from benchmarks.harness.usage import Memory, busy_seconds, cpu_seconds, memory

#: How long (seconds) a run, and what prepares it, may take.
PATIENCE = 300.0


@attrs.frozen
class Flow:
    """One run. Seconds count from the first send to the last event at the last subscriber."""

    events: int
    subscribers: int
    seconds: float
    cpu: float
    """Processor seconds of the broker, all threads."""
    resident: int
    """The most bytes in memory during the run, as seen ten times a second."""
    anonymous: int
    acknowledged: int
    """Events that the broker told the publisher were safe, in this run."""
    dropped: int
    """Events that a subscriber was told it did not get, over all subscribers."""
    actors_cpu: float
    """Processor seconds of publisher and subscribers, those beside included."""
    others: float
    """Cores that other processes of the machine used meanwhile."""

    @property
    def published(self) -> float:
        """Events a second into the broker."""
        return self.events / self.seconds

    @property
    def delivered(self) -> float:
        """Deliveries a second out of it."""
        return (self.events * self.subscribers - self.dropped) / self.seconds

    @property
    def cores(self) -> float:
        """Of the broker."""
        return self.cpu / self.seconds

    @property
    def microseconds(self) -> float:
        """Processor time of the broker for an event: what other processes disturb least."""
        return 1e6 * self.cpu / self.events


@attrs.frozen
class Spread:
    """Median and extremes of several runs."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, flows: Sequence[Flow], figure: Callable[[Flow], float]) -> Spread:
        """Of one figure of these runs."""
        figures = [figure(flow) for flow in flows]
        return cls(statistics.median(figures), min(figures), max(figures))


class Course:
    """A publisher and subscribers, connected to a broker, that make runs one after another."""

    def __init__(
        self,
        pid: int,
        publisher: Actor,
        subscriber: Actor,
        subscribers: int,
        further: Sequence[Actor] = (),
    ) -> None:
        """`subscriber` is one process with all of the `subscribers` in it.

        `merge_marks` are connected to the broker as well, but nothing is asked of them in a run.
        """
        self._pid = pid
        self._further = tuple(actor.pid for actor in further)
        self._publisher = publisher
        self._subscriber = subscriber
        self.subscribers = subscribers
        self._most = Memory(0, 0)

    def run(self, events: int) -> Flow:
        """The next run, with as many events as the actors were told for it."""
        ready = self._publisher.hear("ready", PATIENCE)
        self._subscriber.hear("ready", PATIENCE)
        self._most = memory(self._pid)
        cpu, busy, further = cpu_seconds(self._pid), busy_seconds(), self._further_cpu()
        self._subscriber.go(bytes=ready["bytes"])
        self._publisher.go()
        sent = self._publisher.hear("done", PATIENCE, self._look)
        came = self._subscriber.hear("done", PATIENCE, self._look)
        cpu, busy = cpu_seconds(self._pid) - cpu, busy_seconds() - busy
        self._look()
        seconds = came["ended"] - sent["began"]
        actors_cpu = sent["cpu"] + came["cpu"] + self._further_cpu() - further
        return Flow(
            events=events,
            subscribers=self.subscribers,
            seconds=seconds,
            cpu=cpu,
            resident=self._most.resident,
            anonymous=self._most.anonymous,
            acknowledged=sent["accepted"],
            dropped=came["dropped"],
            actors_cpu=actors_cpu,
            others=max(0.0, busy - cpu - actors_cpu) / seconds,
        )

    def end(self) -> None:
        """Publisher and subscribers are not needed any more."""
        self._publisher.end()
        self._subscriber.end()

    def _further_cpu(self) -> float:
        return sum(map(cpu_seconds, self._further))

    def _look(self) -> None:
        now = memory(self._pid)
        self._most = Memory(
            max(self._most.resident, now.resident), max(self._most.anonymous, now.anonymous)
        )


def as_json(flow: Flow) -> dict[str, Any]:
    """The run with what follows from it."""
    return {
        **attrs.asdict(flow),
        "published_per_second": flow.published,
        "delivered_per_second": flow.delivered,
        "cores": flow.cores,
        "microseconds_per_event": flow.microseconds,
    }
