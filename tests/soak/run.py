"""One run of the soak: traffic, faults, healing, quiescence, and the checker's verdict."""

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
from broker.testing.guarantees import Allowances, EventKey, Observations, ReportedGap, Violation, check, is_complete
from broker.testing.guarantees import report
from tests.soak.faults import FAULTS
from tests.soak.interests import INTERESTS, INTERESTS_OF_ALL, LATE, PUBLISHERS
from tests.soak.observing import Observer
from tests.soak.recorded_places import RecordedPlaces
from tests.soak.world import World, last_lines, make_layout

#: Seconds for subscribers to begin, and between two looks at the notebooks.
BEGIN: Final = 60.0
LOOK: Final = 2.0
#: A run is over when nothing is missing for so long (seconds), or nothing came for so long.
CALM: Final = 3.0
PATIENCE: Final = 75.0
#: And at the latest so long after the faults.
LONGEST: Final = 300.0
#: Faults that happen at the same time.
MOST_AT_ONCE: Final = 3
#: Longest pause between two faults.
PAUSE: Final = 4.0
_ODD: Final = re.compile(r"Traceback|Unhandled|unexpected error")


@attrs.frozen
class Verdict:
    """Result of one run."""

    seed: int
    events: int
    of_new_types: int
    deliveries: int
    faults: int
    violations: Sequence[Violation]
    text: str
    odd: Sequence[str]


@attrs.frozen
class Plan:
    """One run to be made."""

    seed: int
    seconds: float
    """Duration of the faults."""
    faults: Sequence[str]
    rate: float
    """Events a second of each publisher."""


async def run(plan: Plan, folder: Path, dtd_port: int) -> Verdict:
    """Make one run in a folder."""
    layout = make_layout(folder, dtd_port)
    most_damaged = 1 + plan.seed % 2
    world = World(plan.seed, layout, rate=plan.rate, most_damaged=most_damaged)
    observer = Observer()
    keep = True
    try:
        await world.start()
        await _begin(world, observer)
        await _trouble(world, plan)
        await _heal(world, observer)
        await _quiescence(world, observer)
        verdict = _verdict(world, observer, plan)
        keep = bool(verdict.violations)
        return verdict
    except (KeyboardInterrupt, asyncio.CancelledError):
        keep = False
        raise
    finally:
        # A second Ctrl-C must not keep processes and disks from being cleaned up.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        world.stop(keep=keep)
        await world.relays.stop()


async def _begin(world: World, observer: Observer) -> None:
    for name in INTERESTS:
        world.clients[name].come()
    try:
        async with asyncio.timeout(BEGIN):
            while len(observer.flowing) < len(INTERESTS):
                await asyncio.sleep(0.2)
                observer.read(world.clients.values())
    except TimeoutError:
        missing = sorted(set(INTERESTS) - observer.flowing)
        raise RuntimeError(f"{missing} did not begin to flow in {BEGIN:g} s") from None
    for name in PUBLISHERS:
        world.clients[name].come()


async def _trouble(world: World, plan: Plan) -> None:
    """Let faults happen, several at a time."""
    end = time.monotonic() + plan.seconds
    # Apart from the faults' own choices, whose number depends on the moment.
    random = Random(f"plan {plan.seed}")
    tasks: list[asyncio.Task[None]] = []
    try:
        while plan.faults and time.monotonic() < end:
            await asyncio.sleep(random.uniform(0.5, PAUSE))
            fault = FAULTS[random.choice(plan.faults)]
            if sum(not task.done() for task in tasks) < MOST_AT_ONCE:
                tasks.append(asyncio.ensure_future(fault(world)))
            await _mind_nodes(world)
            _come_again(world)
        await asyncio.sleep(max(0.0, end - time.monotonic()))
        results = await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        # Or one of them could start a node that nobody stops.
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    # A fault that can not be done (a file that is gone meanwhile) is none.
    world.odd += [f"a fault failed: {each!r}" for each in results if each is not None]


async def _mind_nodes(world: World) -> None:
    """Start nodes that have ended by themselves."""
    for node in world.nodes.values():
        if not node.running and not node.busy:
            _died(world, node.name)
            await world.start_node(node)


def _died(world: World, name: str) -> None:
    node = world.nodes[name]
    status = None if node.process is None else node.process.status
    world.note(f"{name} has ended by itself, status {status}")
    world.odd.append(f"{name} ended by itself, status {status}: {last_lines(node.log())}")
    node.kill(machine=True)


async def _heal(world: World, observer: Observer) -> None:
    """All links and processes are well; publishers get their last receipts."""
    world.note("everything heals")
    world.relays.heal(reset=True)
    await _mind_nodes(world)
    for name in (*INTERESTS, *PUBLISHERS):
        world.clients[name].come()
    closing = [asyncio.to_thread(world.clients[name].close, LONGEST / 3) for name in PUBLISHERS]
    for name, closed in zip(PUBLISHERS, await asyncio.gather(*closing), strict=True):
        if not closed:
            world.odd.append(f"{name} did not get its last receipts in {LONGEST / 3:g} s")
    for name in LATE:
        world.clients[name].come()
    observer.read(world.clients.values())


async def _quiescence(world: World, observer: Observer) -> None:
    """Wait until nothing is missing, or nothing comes any more."""
    begin = time.monotonic()
    while (now := time.monotonic()) < begin + LONGEST:
        seen = observer.read(world.clients.values())
        _come_again(world)
        calm = now - max(observer.newest, begin)
        if calm > PATIENCE:
            return
        # Of an origin that is not known yet nothing is missing.
        is_over = calm > CALM and observer.caught_up.issuperset(LATE)
        if is_over and is_complete(seen, _allowances(world, seen)):
            return
        await asyncio.sleep(LOOK)


def _come_again(world: World) -> None:
    """Subscribers whose process ended by itself come again, as under a supervisor."""
    for name in INTERESTS_OF_ALL:
        client = world.clients[name]
        if client.processes and not client.running and not client.busy:
            world.note(f"{name} has ended by itself, and comes back")
            client.come()


def _allowances(
    world: World, seen: Observations, recorded: RecordedPlaces | None = None
) -> Allowances:
    """Exceptions that the faults of this run justify; `recorded` when it has ended."""
    damaged = {
        origin: until
        for name, until in world.damaged.items()
        for origin in world.nodes[name].origins
    }
    set_back = {origin for name in world.set_back for origin in world.nodes[name].origins}

    def was_on_lost_disk(key: EventKey, place: Place) -> bool:
        if seen.receipts[key].durability == "neighbour" and len(world.damaged) < 2:
            return False
        # What was published after the damage was never on the disk that was lost.
        return seen.events[key].at <= damaged.get(place.origin, 0.0)

    def may_be_gone(key: EventKey, place: Place, gap: ReportedGap) -> bool:
        if gap.reason == "slow":
            return True
        if gap.reason == "unknown-type":
            return seen.events[key].type.startswith("soak ")
        return was_on_lost_disk(key, place)

    def unheard_of(key: EventKey, place: Place) -> bool:
        if recorded is None or not was_on_lost_disk(key, place):
            return False
        return place not in recorded

    return Allowances(
        justifies_gap=may_be_gone,
        is_unrecorded=unheard_of,
        # Where the archive can not be searched, a recovery ends with an error that says so.
        errors_end_processes=True,
        unknown_origins=world.stepped or world.emptied,
        # Some publishers go to other nodes. Those that stay are at one origin.
        fifo_across_origins=False,
        set_back_origins=frozenset(set_back),
        new_types=frozenset(f"soak 1.{each}" for each in range(1, world.versions + 1)),
    )


def _verdict(world: World, observer: Observer, plan: Plan) -> Verdict:
    seen = observer.read(world.clients.values())
    world.odd += observer.read_logs(world.nodes.values())
    world.odd += observer.read_archive(world.layout.archive)
    for line in world.lines:
        seen.record_fault(line)
    violations = check(seen, _allowances(world, seen, observer.recorded))
    if observer.refused:
        world.odd.append(f"{len(observer.refused)} refused, for example {observer.refused[0]}")
    for subscriber in seen.subscribers:
        for process in subscriber.processes:
            if process.error:
                world.odd.append(f"{subscriber.name}, process {process.number}: {process.error}")
    for name, node in world.nodes.items():
        world.odd += [f"{name} logged: {each}" for each in tracebacks(node.log())]
    of_new_types = sum(seen.events[key].type.startswith("soak ") for key in seen.receipts)
    deliveries = sum(len(list(each.deliveries)) for each in seen.subscribers)
    text = report(f"{plan.seed} ({','.join(plan.faults)})", seen, violations)
    return Verdict(
        *(plan.seed, len(seen.receipts), of_new_types, deliveries, len(world.lines)),
        *(violations, "\n".join([text, "faults:", *world.lines]), world.odd),
    )


def tracebacks(log: str) -> set[str]:
    """The last lines of all tracebacks in a node's log, with the line that introduces each."""
    found = set()
    lines = log.splitlines()
    for number, line in enumerate(lines):
        if _ODD.search(line):
            rest = lines[number + 1 :]
            ends = (each for each in rest if each and not each.startswith((" ", "\t", "Traceback")))
            found.add(f"{lines[max(0, number - 1)][33:150]} ... {next(ends, line)[:150]}")
    return found


def remove(folder: Path) -> None:
    """Remove the folder of a run."""
    with contextlib.suppress(OSError):
        shutil.rmtree(folder)
