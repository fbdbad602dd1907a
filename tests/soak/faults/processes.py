from __future__ import annotations

import asyncio
import signal
from contextlib import ExitStack

from tests.soak.node import SoakNode
from tests.soak.world import World


async def kill(world: World) -> None:
    """Sometimes with the child processes."""
    with world.claim_node() as node:
        if node is not None:
            await _kill(world, [node])


async def kill_many(world: World) -> None:
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(world.claim_node()) for _ in range(world.random.choice((2, 3)))
        ]
        await _kill(world, [node for node in nodes if node is not None])


async def _kill(world: World, nodes: list[SoakNode]) -> None:
    machine = world.random.random() < 0.5
    for node in nodes:
        world.note(f"kill -9 of {node.name}{' and what it has started' if machine else ''}")
        node.kill(machine=machine)
    await asyncio.sleep(world.random.uniform(0.0, 8.0))
    for node in nodes:
        world.note(f"start {node.name}")
    await asyncio.gather(*(world.start_node(node) for node in nodes))


async def stop(world: World) -> None:
    with world.claim_node() as node:
        if node is not None:
            world.note(f"stop {node.name}")
            await asyncio.to_thread(node.stop)
            await asyncio.sleep(world.random.uniform(0.0, 4.0))
            world.note(f"start {node.name}")
            await world.start_node(node)


async def freeze(world: World) -> None:
    with world.claim_node() as node:
        if node is not None:
            seconds = world.random.uniform(1.0, 12.0)
            world.note(f"freeze {node.name} for {seconds:.1f} s")
            node.send(signal.SIGSTOP)
            try:
                await asyncio.sleep(seconds)
            finally:
                node.send(signal.SIGCONT)


async def step_clock(world: World) -> None:
    """Step a node's wall clock back by an hour or forward by a day."""
    with world.claim_node() as node:
        if node is not None:
            back = world.random.random() < 0.5
            world.has_stepped_clock = True
            world.note(f"the clock of {node.name} goes {'back by 1 h' if back else 'on by 24 h'}")
            node.send(signal.SIGUSR1 if back else signal.SIGUSR2)
