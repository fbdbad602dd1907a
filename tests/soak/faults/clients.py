from __future__ import annotations

import asyncio

from tests.soak.interests import PUBLISHERS
from tests.soak.world import World


async def kill(world: World) -> None:
    await _end(world, kill=True)


async def close(world: World) -> None:
    await _end(world, kill=False)


async def roam(world: World) -> None:
    await _end(world, kill=world.random.random() < 0.5, roam=True)


async def new_type(world: World) -> None:
    """The type or version is unknown to the nodes."""
    world.versions += 1
    world.note(f"types: soak 1.{world.versions} from now on")
    for name in PUBLISHERS:
        world.clients[name].next_version()


async def _end(world: World, *, kill: bool, roam: bool = False) -> None:
    client = world.pick_client()
    if client is None:
        return
    client.is_claimed = True
    try:
        world.note(f"{client.name} {'is killed' if kill else 'closes'}")
        if kill:
            client.kill()
        elif not await asyncio.to_thread(client.close):
            world.note(f"{client.name} did not close, and is killed")
        if roam and client.name not in PUBLISHERS:
            client.shuffle_nodes()
        await asyncio.sleep(world.random.choice((0.0, 0.0, 1.0, 6.0)))
        world.note(f"{client.name} comes back")
        client.start_process()
    finally:
        client.is_claimed = False
