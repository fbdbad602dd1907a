"""One run of the soak: traffic, faults, repair, quiescence, and the checker's verdict."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

import attrs

from broker.event.place import Place
from broker.testing.guarantees import (
    Allowances,
    EventKey,
    Observations,
    ReportedGap,
    Violation,
    check,
    is_complete,
    report,
)
from tests.soak.faults import FAULTS
from tests.soak.interests import ALL_INTERESTS, INTERESTS, LATE_READERS, PUBLISHERS
from tests.soak.observer import Observer
from tests.soak.recorded_places import RecordedPlaces
from tests.soak.world import World, last_lines, make_layout

#: Seconds for subscribers to start, and between two reads of the notebooks.
START_SECONDS: Final = 60.0
POLL_SECONDS: Final = 2.0
#: The end: no event is missing, or none is delivered, for so many seconds.
CALM_SECONDS: Final = 3.0
PATIENCE: Final = 75.0
#: Seconds after the faults.
LONGEST_WAIT: Final = 300.0
#: Simultaneous faults.
MAX_FAULTS: Final = 3
#: In seconds.
LONGEST_PAUSE: Final = 4.0
_UNEXPECTED: Final = re.compile(r"Traceback|Unhandled|unexpected error")


@attrs.frozen
class Verdict:
    seed: int
    events: int
    of_new_types: int
    deliveries: int
    faults: int
    violations: Sequence[Violation]
    text: str
    problems: Sequence[str]


@attrs.frozen
class Plan:
    seed: int
    seconds: float
    """Of the faults."""
    faults: Sequence[str]
    rate: float
    """Events per second of each publisher."""


async def run(plan: Plan, folder: Path, dtd_port: int) -> Verdict:
    layout = make_layout(folder, dtd_port)
    most_damaged = 1 + plan.seed % 2
    world = World(plan.seed, layout, rate=plan.rate, most_damaged=most_damaged)
    observer = Observer()
    keep = True
    try:
        await world.start()
        await _start_clients(world, observer)
        await _inject_faults(world, plan)
        await _heal(world, observer)
        await _quiescence(world, observer)
        verdict = _verdict(world, observer, plan)
        keep = bool(verdict.violations)
        return verdict
    except (KeyboardInterrupt, asyncio.CancelledError):
        keep = False
        raise
    finally:
        # A second Ctrl-C must not interrupt the cleanup.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        world.stop(keep=keep)
        await world.relays.stop()


async def _start_clients(world: World, observer: Observer) -> None:
    for name in INTERESTS:
        world.clients[name].start_process()
    try:
        async with asyncio.timeout(START_SECONDS):
            while len(observer.flowing_clients) < len(INTERESTS):
                await asyncio.sleep(0.2)
                observer.read_notebooks(world.clients.values())
    except TimeoutError:
        missing = sorted(set(INTERESTS) - observer.flowing_clients)
        raise RuntimeError(f"{missing} did not begin to flow in {START_SECONDS:g} s") from None
    for name in PUBLISHERS:
        world.clients[name].start_process()


async def _inject_faults(world: World, plan: Plan) -> None:
    end = time.monotonic() + plan.seconds
    # The number of the faults' own random numbers depends on timing.
    random = Random(f"plan {plan.seed}")
    tasks: list[asyncio.Task[None]] = []
    try:
        while plan.faults and time.monotonic() < end:
            await asyncio.sleep(random.uniform(0.5, LONGEST_PAUSE))
            fault = FAULTS[random.choice(plan.faults)]
            if sum(not task.done() for task in tasks) < MAX_FAULTS:
                tasks.append(asyncio.ensure_future(fault(world)))
            await _restart_dead_nodes(world)
            _restart_dead_clients(world)
        await asyncio.sleep(max(0.0, end - time.monotonic()))
        results = await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        # A running fault could start a node that is never stopped.
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    # A file may have disappeared.
    world.problems += [f"a fault failed: {each!r}" for each in results if each is not None]


async def _restart_dead_nodes(world: World) -> None:
    for node in world.nodes.values():
        if not node.is_running and not node.is_claimed:
            _record_death(world, node.name)
            await world.start_node(node)


def _record_death(world: World, name: str) -> None:
    node = world.nodes[name]
    status = None if node.process is None else node.process.status
    world.note(f"{name} has ended by itself, status {status}")
    world.problems.append(f"{name} ended by itself, status {status}: {last_lines(node.read_log())}")
    node.kill(machine=True)


async def _heal(world: World, observer: Observer) -> None:
    """Publishers wait for their last receipts."""
    world.note("everything heals")
    world.relays.heal(reset=True)
    await _restart_dead_nodes(world)
    for name in (*INTERESTS, *PUBLISHERS):
        world.clients[name].start_process()
    closing = [
        asyncio.to_thread(world.clients[name].close, LONGEST_WAIT / 3) for name in PUBLISHERS
    ]
    for name, closed in zip(PUBLISHERS, await asyncio.gather(*closing), strict=True):
        if not closed:
            world.problems.append(f"{name} did not get its last receipts in {LONGEST_WAIT / 3:g} s")
    for name in LATE_READERS:
        world.clients[name].start_process()
    observer.read_notebooks(world.clients.values())


async def _quiescence(world: World, observer: Observer) -> None:
    """Wait until nothing is missing, or nothing arrives any more."""
    started = time.monotonic()
    while (now := time.monotonic()) < started + LONGEST_WAIT:
        seen = observer.read_notebooks(world.clients.values())
        _restart_dead_clients(world)
        calm = now - max(observer.newest_note_at, started)
        if calm > PATIENCE:
            return
        # No events of an unknown origin are missing, so the late readers count.
        is_over = calm > CALM_SECONDS and observer.caught_up_clients.issuperset(LATE_READERS)
        if is_over and is_complete(seen, _allowances(world, seen)):
            return
        await asyncio.sleep(POLL_SECONDS)


def _restart_dead_clients(world: World) -> None:
    for name in ALL_INTERESTS:
        client = world.clients[name]
        if client.processes and not client.is_running and not client.is_claimed:
            world.note(f"{name} has ended by itself, and comes back")
            client.start_process()


def _allowances(
    world: World, seen: Observations, recorded: RecordedPlaces | None = None
) -> Allowances:
    """`recorded` is given after the end."""
    damaged = {
        origin: until
        for name, until in world.lost_until.items()
        for origin in world.nodes[name].origins
    }
    set_back = {origin for name in world.restored_nodes for origin in world.nodes[name].origins}

    def was_on_lost_disk(key: EventKey, place: Place) -> bool:
        if seen.receipts[key].durability == "neighbour" and len(world.lost_until) < 2:
            return False
        # Events published after the damage were never on the lost disk.
        return seen.events[key].at <= damaged.get(place.origin, 0.0)

    def justifies_gap(key: EventKey, place: Place, gap: ReportedGap) -> bool:
        if gap.reason == "slow":
            return True
        if gap.reason == "unknown-type":
            return seen.events[key].type.startswith("soak ")
        return was_on_lost_disk(key, place)

    def is_unrecorded(key: EventKey, place: Place) -> bool:
        if recorded is None or not was_on_lost_disk(key, place):
            return False
        return place not in recorded

    return Allowances(
        justifies_gap=justifies_gap,
        is_unrecorded=is_unrecorded,
        # An archive that can not be searched ends a recovery.
        errors_end_processes=True,
        unknown_origins=world.has_stepped_clock or world.has_emptied_disk,
        # Publishers that move use several origins.
        fifo_across_origins=False,
        set_back_origins=frozenset(set_back),
        new_types=frozenset(f"soak 1.{each}" for each in range(1, world.versions + 1)),
    )


def _verdict(world: World, observer: Observer, plan: Plan) -> Verdict:
    seen = observer.read_notebooks(world.clients.values())
    world.problems += observer.read_logs(world.nodes.values())
    world.problems += observer.read_archive(world.layout.archive)
    for line in world.fault_notes:
        seen.record_fault(line)
    violations = check(seen, _allowances(world, seen, observer.recorded))
    if observer.refused_publications:
        refused = observer.refused_publications
        world.problems.append(f"{len(refused)} refused, for example {refused[0]}")
    for subscriber in seen.subscribers:
        for process in subscriber.processes:
            if process.error:
                world.problems.append(
                    f"{subscriber.name}, process {process.number}: {process.error}"
                )
    for name, node in world.nodes.items():
        world.problems += [f"{name} logged: {each}" for each in tracebacks(node.read_log())]
    of_new_types = sum(seen.events[key].type.startswith("soak ") for key in seen.receipts)
    deliveries = sum(len(list(each.deliveries)) for each in seen.subscribers)
    text = report(f"{plan.seed} ({','.join(plan.faults)})", seen, violations)
    return Verdict(
        *(plan.seed, len(seen.receipts), of_new_types, deliveries, len(world.fault_notes)),
        *(violations, "\n".join([text, "faults:", *world.fault_notes]), world.problems),
    )


def tracebacks(log: str) -> set[str]:
    """Return its last line, and the line before it."""
    found = set()
    lines = log.splitlines()
    for number, line in enumerate(lines):
        if _UNEXPECTED.search(line):
            rest = lines[number + 1 :]
            ends = (each for each in rest if each and not each.startswith((" ", "\t", "Traceback")))
            found.add(f"{lines[max(0, number - 1)][33:150]} ... {next(ends, line)[:150]}")
    return found


def remove(folder: Path) -> None:
    with contextlib.suppress(OSError):
        shutil.rmtree(folder)
