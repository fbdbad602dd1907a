"""The checker of the guarantees accepts sound runs and finds each broken variant."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from broker.client.client import Client
from broker.testing.flights import INTERESTS
from broker.testing.guarantees import Allowances, Guarantee, Violation, check, report
from broker.testing.guarantees.allowances import NONE
from broker.testing.observer import Observer
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read, read_logs
from tests.simulation.broken.variants import (
    acknowledge_before_commit,
    no_checksum,
    no_deduplication,
    places_reused,
    position_before_handling,
    silent_relay,
)
from tests.simulation.network.test_dtd_exchange import report_settings

Scenario: TypeAlias = Callable[[AbstractContextManager[None], Path], list[Violation]]


def checked(observer: Observer, allowed: Allowances = NONE) -> list[Violation]:
    violations = check(observer.seen, allowed)
    print(report("0", observer.seen, violations))
    return violations


def publish(world: NetworkWorld, publisher: Publisher, count: int, name: str = "flight") -> None:
    for _ in range(count):
        publisher.publish(altitude=600, name=name)
        world.run(0.01)


def killed_node(variant: AbstractContextManager[None], _: Path) -> list[Violation]:
    with variant, NetworkWorld(1, thread_delay=0.5) as world:
        world.add("a", "one")
        world.run(1.0)
        observer = Observer(world)
        publisher = Publisher(observer.watch(world.client("publisher", "a")))
        readers = [_start_reader(world, 1)]
        world.run_until(lambda: readers[0].is_flowing)
        # It must not get events that are nowhere else.
        _kill_reader(world, readers)
        publish(world, publisher, 5)
        world.kill("a")
        world.start("a")
        world.run_until(lambda: not publisher.client.unacknowledged)
        readers.append(_start_reader(world, 2))
        read(world, readers[1], seconds=10.0)
        observer.record_logs(read_logs(world))
        observer.add_subscriber("reader", readers)
        return checked(observer)


def late_reader(variant: AbstractContextManager[None], _: Path) -> list[Violation]:
    """A durable subscriber reads events from the log after its absence."""
    with variant, NetworkWorld(1) as world:
        world.add("a", "one")
        world.run(1.0)
        observer = Observer(world)
        publisher = Publisher(observer.watch(world.client("publisher", "a")))
        readers = [_start_reader(world, 1)]
        world.run_until(lambda: readers[0].is_flowing)
        _kill_reader(world, readers)
        publish(world, publisher, 5)
        world.run(1.0)
        readers.append(_start_reader(world, 2))
        read(world, readers[1])
        observer.add_subscriber("reader", readers)
        return checked(observer)


def restarted_node(variant: AbstractContextManager[None], _: Path) -> list[Violation]:
    with NetworkWorld(1) as world:
        world.add("a", "one")
        world.add("b", "two", gateways=["a"])
        world.run(2.0)
        observer = Observer(world)
        publisher = Publisher(observer.watch(world.client("publisher", "a")))
        reader = Reader(world, world.client("reader", "b"))
        world.run_until(lambda: reader.is_flowing)
        publish(world, publisher, 5)
        world.run(1.0)
        world.stop("a")
        with variant:
            world.start("a")
            publish(world, publisher, 5)
            world.run_until(lambda: not publisher.client.unacknowledged)
            read(world, reader, seconds=10.0)
        observer.add_subscriber("reader", [reader])
        return checked(observer)


def repeated_publication(variant: AbstractContextManager[None], _: Path) -> list[Violation]:
    """A publisher sends unacknowledged events again after its connection broke."""
    with variant, NetworkWorld(1, thread_delay=0.3) as world:
        world.add("a", "one")
        world.run(1.0)
        observer = Observer(world)
        publisher = Publisher(observer.watch(world.client("publisher", "a")))
        reader = Reader(world, world.client("reader", "a"), durable="d")
        world.run_until(lambda: reader.is_flowing)
        publish(world, publisher, 5)
        # The commit is in progress.
        world.cut_client("publisher")
        world.run(0.2)
        world.kill("a")
        world.start("a")
        world.run_until(lambda: not publisher.client.unacknowledged)
        read(world, reader, seconds=5.0)
        observer.add_subscriber("reader", [reader])
        return checked(observer)


def new_type(variant: Callable[[NetworkWorld], Any], folder: Path) -> list[Violation]:
    """A type that only the publisher's node knows passes through another node."""
    with NetworkWorld(1) as world:
        world.add("a", "one", settings=report_settings(folder / "types", "1.0"))
        world.add("b", "two", gateways=["a"])
        world.add("c", "three", gateways=["b"])
        world.run(3.0)
        observer = Observer(world)
        publisher = Publisher(observer.watch(world.client("publisher", "a")))
        reader = Reader(world, world.client("reader", "c"))
        world.run_until(lambda: reader.is_flowing)
        with variant(world):
            publish(world, publisher, 2)
            publish(world, publisher, 2, "report")
            publish(world, publisher, 2)
            read(world, reader, seconds=5.0)
        observer.add_subscriber("reader", [reader])
        return checked(observer, Allowances(new_types=frozenset({"report 1.0"})))


def killed_client(variant: AbstractContextManager[None], _: Path) -> list[Violation]:
    """A client process dies while it handles the events that it read last."""
    with variant, NetworkWorld(1) as world:
        world.add("a", "one")
        world.run(1.0)
        observer = Observer(world)
        publisher = Publisher(observer.watch(world.client("publisher", "a")))
        readers = [_start_reader(world, 1)]
        world.run_until(lambda: readers[0].is_flowing)
        publish(world, publisher, 5)
        world.run(1.0)
        subscription = readers[0].subscription
        assert subscription is not None
        taken = subscription.take_ready()
        assert taken
        world.run(2.0)
        _kill_reader(world, readers)
        readers.append(_start_reader(world, 2))
        read(world, readers[1])
        subscriber = observer.add_subscriber("reader", readers)
        observer.mark_unhandled(subscriber.processes[0], taken)
        return checked(observer)


def _start_reader(world: NetworkWorld, incarnation: int) -> Reader:
    client = world.client("reader", "a", incarnation=incarnation)
    return Reader(world, client, INTERESTS[0], durable="d")


def _kill_reader(world: NetworkWorld, readers: list[Reader]) -> None:
    client: Client = readers[-1].client
    world.kill_client(client)
    world.run(0.5)


VARIANTS: list[tuple[Scenario, Callable[[], AbstractContextManager[None]], Guarantee]] = [
    (killed_node, acknowledge_before_commit, Guarantee.DURABILITY),
    (late_reader, no_checksum, Guarantee.BYTES),
    (restarted_node, places_reused, Guarantee.DURABILITY),
    (repeated_publication, no_deduplication, Guarantee.ONCE),
    (killed_client, position_before_handling, Guarantee.AT_LEAST_ONCE),
]


@pytest.mark.parametrize(
    ("scenario", "variant", "guarantee"), VARIANTS, ids=lambda each: getattr(each, "__name__", "")
)
def test_checker_finds_each_broken_variant(
    scenario: Scenario,
    variant: Callable[[], AbstractContextManager[None]],
    guarantee: Guarantee,
    tmp_path: Path,
) -> None:
    assert scenario(nullcontext(), tmp_path) == []
    found = {violation.guarantee for violation in scenario(variant(), tmp_path)}
    assert guarantee in found


def test_checker_finds_a_relay_that_drops_a_type(tmp_path: Path) -> None:
    assert new_type(lambda world: nullcontext(), tmp_path) == []
    found = new_type(lambda world: silent_relay(world, "b", "report"), tmp_path)
    assert {violation.guarantee for violation in found} == {Guarantee.TYPES}
    assert len(found) == 2
