"""Base of parts that follow the deliveries of a site, beside the order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import attrs

from broker.event.place import Mark
from broker.transport.core_runner import CoreRunner
from broker.transport.order import MessageId, Stamp
from plugins.rcm.delivered_run import DeliveredRun
from plugins.rcm.effects import DeliverBatch, DeliverMessage, GroupEffect


class GroupObserver:
    """A sans-I/O core that follows the deliveries of its site, and may talk to other sites.

    The transport calls it, and applies the effects, between two calls of the group.
    """

    mark: bytes
    """First byte of its packets, below 0x80."""

    def restore(self, runs: Sequence[DeliveredRun], now: float) -> list[GroupEffect]:
        """Handle the end of the log, in its order, before anything else."""
        return []

    def send(self, data: Sequence[bytes], sites: Sequence[str], now: float) -> list[GroupEffect]:
        """Handle packets of the order that were sent to other sites now."""
        return []

    def deliver(self, flow: str, runs: Sequence[DeliveredRun], now: float) -> list[GroupEffect]:
        """Handle events of a flow that are delivered now."""
        return []

    def deliver_message(self, message: DeliverMessage, now: float) -> list[GroupEffect]:
        """Handle a message that is no event, and is delivered now."""
        return []

    def take_back(self, taken: Sequence[tuple[MessageId, Stamp]], now: float) -> list[GroupEffect]:
        """Handle that delivered events were not logged after all. They come again."""
        return []

    def move(
        self, id: MessageId, before: Stamp | None, stamp: Stamp, now: float
    ) -> list[GroupEffect]:
        """Handle that a delivered message has another place, or its first, from now on."""
        return []

    def miss(
        self, site: str, incarnation: int, first: int, last: int, now: float
    ) -> list[GroupEffect]:
        """Handle that messages of a site with these numbers will not come."""
        return []

    def connect(self, site: str, now: float) -> list[GroupEffect]:
        """Handle that a site is connected from now on."""
        return []

    def disconnect(self, site: str, now: float) -> list[GroupEffect]:
        """Handle that a site is suspected or disconnected from now on."""
        return []

    def receive(self, site: str, packets: Sequence[bytes], now: float) -> list[GroupEffect]:
        """Handle packets of a site that begin with `mark`."""
        return []

    def handle_timeout(self, now: float) -> list[GroupEffect]:
        """Do the work that is due."""
        return []

    def next_timeout(self) -> float | None:
        """Return the time of the next `handle_timeout`."""
        return None

    def snapshot(self) -> Mapping[str, object]:
        """Return its state for `status`."""
        return {}

    def describe_site(self, site: str, now: float) -> Mapping[str, object]:
        """Return its state for one other site."""
        return {}


class Observers:
    """The observers of a site."""

    def __init__(self, runner: CoreRunner[GroupEffect]) -> None:
        self._runner = runner
        self._observers: list[GroupObserver] = []

    def __iter__(self) -> Iterator[GroupObserver]:
        return iter(self._observers)

    def add(self, *observers: GroupObserver | None) -> None:
        """Add those that the configuration has."""
        self._observers += [each for each in observers if each is not None]

    def call(self, method: Callable[[GroupObserver, float], Iterable[GroupEffect]]) -> None:
        """Call a method of each with the present time, and apply the effects."""
        self._runner.call(
            lambda now: [effect for each in self._observers for effect in method(each, now)]
        )

    def disconnect(self, site: str) -> None:
        self.call(lambda each, now: each.disconnect(site, now))

    def deliver(self, flow: str, runs: Sequence[DeliveredRun]) -> None:
        if runs:
            self.call(lambda each, now: each.deliver(flow, runs, now))

    def take_back(
        self, taken: Sequence[tuple[MessageId, Stamp]], queued: tuple[str, Mark] | None
    ) -> None:
        """Take back deliveries, and those of a flow behind a place that are not executed yet."""

        def replace(effect: GroupEffect) -> GroupEffect:
            if isinstance(effect, DeliverBatch) and queued is not None:
                flow, after = queued
                if effect.batch.flow == flow and effect.batch.upto > after:
                    return attrs.evolve(effect, is_taken_back=True)
            return effect

        if queued is not None:
            self._runner.replace_effects(replace)
        self.call(lambda each, now: each.take_back(taken, now))

    def receive(self, site: str, messages: Sequence[bytes]) -> None:
        """Take the marked packets of a site. Those for parts that do not run here are dropped."""
        for each in self._observers:
            packets = [one for one in messages if one.startswith(each.mark)]
            if packets:
                self._runner.call(each.receive, site, packets)

    def snapshot(self) -> dict[str, object]:
        found = [each.snapshot() for each in self._observers]
        return {name: value for one in found for name, value in one.items()}

    def describe_site(self, site: str, now: float) -> dict[str, object]:
        found = [each.describe_site(site, now) for each in self._observers]
        return {name: value for one in found for name, value in one.items()}


def is_marked(packet: bytes) -> bool:
    """Return whether a packet is for an observer. Those of the order are msgpack arrays."""
    return b"" < packet[:1] < b"\x80"
