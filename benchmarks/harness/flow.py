"""Measured runs: events from one publisher, through a broker, to all its subscribers."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from benchmarks.harness.actor import Actor
from benchmarks.harness.usage import Memory, busy_seconds, cpu_seconds, memory

#: Seconds for a run, and for its preparation.
TIMEOUT = 300.0


@attrs.frozen
class Flow:
    """Seconds count from the first send to the last event at the last subscriber."""

    events: int
    subscribers: int
    seconds: float
    cpu: float
    """Processor seconds of the broker."""
    resident: int
    """Peak bytes, sampled ten times a second."""
    anonymous: int
    acknowledged: int
    """Events of this run that the broker acknowledged."""
    dropped: int
    """Events reported as dropped, over all subscribers."""
    actors_cpu: float
    """Processor seconds of publisher and all subscribers, those with extra queries included."""
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
        return self.cpu / self.seconds

    @property
    def microseconds(self) -> float:
        """Processor time of the broker for an event: the figure least disturbed by other
        processes."""
        return 1e6 * self.cpu / self.events


@attrs.frozen
class Spread:
    """Median and extremes of several runs."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, flows: Sequence[Flow], figure: Callable[[Flow], float]) -> Spread:
        figures = [figure(flow) for flow in flows]
        return cls(statistics.median(figures), min(figures), max(figures))


class FlowRunner:
    def __init__(
        self,
        pid: int,
        publisher: Actor,
        subscriber: Actor,
        subscribers: int,
        further: Sequence[Actor] = (),
    ) -> None:
        """`subscriber` is one process for all. The actors of `further` stay connected, but get no
        messages."""
        self._pid = pid
        self._extra_pids = tuple(actor.pid for actor in further)
        self._publisher = publisher
        self._subscriber = subscriber
        self.subscribers = subscribers
        self._peak = Memory(0, 0)

    def run(self, events: int) -> Flow:
        ready = self._publisher.wait_for("ready", TIMEOUT)
        self._subscriber.wait_for("ready", TIMEOUT)
        self._peak = memory(self._pid)
        cpu, busy, further = cpu_seconds(self._pid), busy_seconds(), self._extra_cpu()
        self._subscriber.start_run(bytes=ready["bytes"])
        self._publisher.start_run()
        sent = self._publisher.wait_for("done", TIMEOUT, self._sample_memory)
        came = self._subscriber.wait_for("done", TIMEOUT, self._sample_memory)
        cpu, busy = cpu_seconds(self._pid) - cpu, busy_seconds() - busy
        self._sample_memory()
        seconds = came["ended"] - sent["began"]
        actors_cpu = sent["cpu"] + came["cpu"] + self._extra_cpu() - further
        return Flow(
            events=events,
            subscribers=self.subscribers,
            seconds=seconds,
            cpu=cpu,
            resident=self._peak.resident,
            anonymous=self._peak.anonymous,
            acknowledged=sent["accepted"],
            dropped=came["dropped"],
            actors_cpu=actors_cpu,
            others=max(0.0, busy - cpu - actors_cpu) / seconds,
        )

    def stop(self) -> None:
        self._publisher.stop()
        self._subscriber.stop()

    def _extra_cpu(self) -> float:
        return sum(map(cpu_seconds, self._extra_pids))

    def _sample_memory(self) -> None:
        now = memory(self._pid)
        self._peak = Memory(
            max(self._peak.resident, now.resident), max(self._peak.anonymous, now.anonymous)
        )


def as_json(flow: Flow) -> dict[str, Any]:
    """Return the run with derived figures."""
    return {
        **attrs.asdict(flow),
        "published_per_second": flow.published,
        "delivered_per_second": flow.delivered,
        "cores": flow.cores,
        "microseconds_per_event": flow.microseconds,
    }
