from __future__ import annotations

import asyncio

from tests.soak.world import World


async def cut(world: World) -> None:
    one, other = world.random.choice(world.edges)
    world.note(f"cut {one}-{other}")
    world.relays.cut(one, other)


async def partition(world: World) -> None:
    names = list(world.nodes)
    world.random.shuffle(names)
    some = set(names[: world.random.randint(1, len(names) // 2)])
    pairs = [(a, b) for a in some for b in names if b not in some]
    seconds = world.random.uniform(1.0, 12.0)
    world.note(f"partition: {sorted(some)} for {seconds:.1f} s")
    world.relays.refuse([*pairs, *((b, a) for a, b in pairs)])
    await _heal(world, seconds)


async def one_way(world: World) -> None:
    one, other = world.random.choice(world.edges)
    if world.random.random() < 0.5:
        one, other = other, one
    seconds = world.random.uniform(1.0, 12.0)
    world.note(f"one-way: nothing from {one} reaches {other} for {seconds:.1f} s")
    world.relays.stall([(one, other)])
    await _heal(world, seconds)


async def half_open(world: World) -> None:
    """One end of a connection stays open."""
    one, other = world.random.choice(world.edges)
    seconds = world.random.uniform(1.0, 12.0)
    world.note(f"half-open: {one} has lost its connections to {other}, {seconds:.1f} s")
    world.relays.half_open(one, other)
    await _heal(world, seconds)


async def packet_loss(world: World) -> None:
    with world.claim_node() as node:
        if node is None:
            return
        rate = world.random.choice((0.01, 0.05, 0.2))
        kind = world.random.choice(("discard", "duplicate", "shuffle", "corrupt"))
        seed = world.random.randrange(1000)
        faults = f'[[faults]]\nkind = "{kind}"\nrate = {rate}\nseed = {seed}\n'
        world.note(f"packet-loss: the links of {node.name} {kind} {rate:.0%}")
        await asyncio.to_thread(node.stop)
        await world.start_node(node, faults)
        await asyncio.sleep(world.random.uniform(4.0, 10.0))
        world.note(f"packet-loss: {node.name} starts with sound links")
        await asyncio.to_thread(node.stop)
        await world.start_node(node)


async def _heal(world: World, seconds: float) -> None:
    try:
        await asyncio.sleep(seconds)
    finally:
        world.relays.heal(reset=world.random.random() < 0.5)
