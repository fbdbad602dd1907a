from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from broker.errors import LogUnavailable
from broker.event.envelope import EventType
from broker.testing.killable import DelayedThreads, KillableClock
from broker.testing.simulation import BEGINNING, World

FLIGHT = EventType("flight", "1.0")
PAYLOAD = b"<flight><id>A</id><flightleg/></flight>"


def history(seed: int) -> list[tuple[float, Any]]:
    seen: list[tuple[float, Any]] = []
    with World(seed, jitter=0.01) as world:
        publisher, reader = world.client("publisher"), world.client("reader")
        subscription = world.wait(reader.subscribe("/flight"))
        for turn in range(30):
            result: Any = publisher.publish("a", PAYLOAD, FLIGHT)
            result.addBoth(lambda r: seen.append((world.clock.seconds(), r.event_id)))
            world.run(world.random.uniform(0.0, 0.3))
            if turn == 10:
                world.cut_client("reader")
            if turn == 20:
                world.kill_node()
                world.run(0.5)
                world.start_node()
            for event in subscription.take_ready():
                seen.append((world.clock.seconds(), event.place.mark))
        world.run(5.0)
    return seen


def test_a_seed_gives_the_same_run_each_time() -> None:
    assert history(5) == history(5)
    assert history(5) != history(6)


def test_a_killed_node_sends_nothing_more_and_another_one_may_start() -> None:
    with World(1) as world:
        client = world.client("a")
        world.run(1.0)
        assert client.connected
        old = world.node
        result: Any = client.publish("a", PAYLOAD, FLIGHT)
        world.run(0.001)
        world.kill_node()
        assert not world.is_running
        with pytest.raises(AssertionError, match="down"):
            _ = world.node
        world.run(30.0)
        assert not client.connected
        new = world.start_node()
        assert new is not old and new.event_log.origin == old.event_log.origin
        assert new.event_log.bounds.epoch > old.event_log.bounds.epoch
        assert world.wait(result).event_id.sequence_number == 1


def test_a_stop_in_good_order_closes_the_log() -> None:
    with World(1) as world:
        result: Any = world.client("a").publish("a", PAYLOAD, FLIGHT)
        world.run(1.0)
        first = world.wait(result)
        world.stop_node()
        log = world.start_node().event_log
        assert log.origin == first.place.origin
        assert log.bounds.offset == first.place.offset


def test_a_killed_client_does_nothing_more() -> None:
    with World(1) as world:
        client = world.client("a")
        world.run(1.0)
        world.kill_client(client)
        world.run(1.0)
        (session,) = world.node.acceptor.sessions
        assert not session.link.is_attached
        world.run(100.0)
        assert not list(world.node.acceptor.sessions)
        assert world.pending_timers() == []


def test_a_full_disk_takes_nothing_and_a_node_does_not_start_on_it() -> None:
    with World(1) as world:
        client = world.client("a")
        world.run(1.0)
        world.disk.is_full = True
        result: Any = client.publish("a", PAYLOAD, FLIGHT)
        world.run(5.0)
        assert not result.called
        world.kill_node()
        with pytest.raises(LogUnavailable):
            world.start_node()
        world.disk.is_full = False
        world.start_node()
        assert world.wait(result).place.offset == 1


def test_an_unreached_condition_is_an_error_with_the_seed() -> None:
    with World(17) as world, pytest.raises(AssertionError, match="seed 17"):
        world.run_until(lambda: False, limit=1.0)


def test_time_passes_from_call_to_call() -> None:
    with World(1) as world:
        times: list[float] = []
        for delay in (0.5, 0.1, 0.1, 3.0):
            world.clock.callLater(delay, lambda: times.append(world.clock.seconds()))
        world.run(1.0)
        assert times == [0.1, 0.1, 0.5] and world.clock.seconds() == 1.0
        assert world.wall_clock() == BEGINNING + 1000


def test_a_dead_clock_makes_no_call_and_lets_the_dead_cancel() -> None:
    clock = Clock()
    mortal = KillableClock(clock)
    called: list[int] = []
    call = mortal.callLater(1.0, called.append, 1)
    mortal.callLater(2.0, called.append, 2)
    mortal.kill()
    call.cancel()
    clock.advance(3.0)
    assert called == []


def test_calls_of_a_slow_thread_and_their_results_keep_their_order() -> None:
    with World(3) as world:
        clock = KillableClock(world.clock)
        threads = DelayedThreads(clock, world.random, 1.0)
        order: list[str] = []

        def call(name: str) -> str:
            order.append(f"{name} runs")
            if name == "b":
                raise ValueError(name)
            return name

        results: list[Deferred[Any]] = [threads.write(call, name) for name in "abc"]
        for result in results:
            result.addBoth(lambda r: order.append(f"{getattr(r, 'value', r)} is known"))
        assert order == []
        world.run(10.0)
        assert [o for o in order if "runs" in o] == ["a runs", "b runs", "c runs"]
        assert [o for o in order if "known" in o] == ["a is known", "b is known", "c is known"]
