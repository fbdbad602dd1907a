from __future__ import annotations

import asyncio
import math
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.soak.disk import copy
from tests.soak.node import SoakNode
from tests.soak.world import World


async def fill(world: World) -> None:
    with world.claim_node() as node:
        if node is None:
            return
        seconds = world.random.uniform(2.0, 10.0)
        world.note(f"full-disk: {node.name} for {seconds:.1f} s")
        node.disk.fill(node.pid)
        try:
            await asyncio.sleep(seconds)
        finally:
            if node.is_running:
                node.disk.free(node.pid)


async def flip(world: World) -> None:
    await _damage(world, "flip", _flip_bits, lasting=True)


async def cut_log(world: World) -> None:
    await _damage(world, "log-cut", _cut_end, lasting=True)


async def wipe(world: World) -> None:
    world.has_emptied_disk = True
    await _damage(world, "wipe", lambda node, random: _empty(node))


async def older_copy(world: World) -> None:
    """The copy is some seconds old."""
    with world.claim_disk() as node:
        if node is None:
            return
        world.lost_until.setdefault(node.name, 0.0)
        clean = world.random.random() < 0.5
        how = "after a clean stop" if clean else "while it ran"
        world.note(f"older-copy: {node.name} is copied {how}")
        copied = node.folder / "copy"
        shutil.rmtree(copied, ignore_errors=True)
        if clean:
            await asyncio.to_thread(node.stop)
        copy(node.layout.data(node.name), copied)
        if clean:
            await world.start_node(node)
        await asyncio.sleep(world.random.uniform(2.0, 8.0))
        node.kill(machine=True)
        world.note(f"older-copy: {node.name} starts on the copy")
        world.restored_nodes.add(node.name)
        _lost_until_now(world, node)
        _empty(node)
        copy(copied, node.layout.data(node.name))
        await _start(world, node)


async def _damage(
    world: World,
    fault: str,
    damage: Callable[[SoakNode, Random], str],
    *,
    lasting: bool = False,
) -> None:
    """Lasting damage may lose later events, too."""
    with world.claim_disk() as node:
        if node is None:
            return
        world.lost_until.setdefault(node.name, 0.0)
        if world.random.random() < 0.5:
            await asyncio.to_thread(node.stop)
        else:
            node.kill(machine=True)
        world.note(f"{fault}: {node.name} {damage(node, world.random)}")
        _lost_until_now(world, node)
        if lasting:
            world.lost_until[node.name] = math.inf
        await _start(world, node)


async def _start(world: World, node: SoakNode) -> None:
    if not await world.start_node(node):
        # As an operator would do.
        node.kill(machine=True)
        world.note(f"{node.name} does not start; its disk is emptied")
        world.has_emptied_disk = True
        _empty(node)
        _lost_until_now(world, node)
        await world.start_node(node)


def _lost_until_now(world: World, node: SoakNode) -> None:
    world.lost_until[node.name] = max(world.lost_until[node.name], time.monotonic())


def _flip_bits(node: SoakNode, random: Random) -> str:
    path = _log_of(node)
    data = bytearray(path.read_bytes())
    # The first two pages hold the root of all others.
    places = sorted(random.randrange(8192, len(data)) for _ in range(random.randint(1, 20)))
    for place in places:
        data[place] ^= 1 << random.randrange(8)
    path.write_bytes(data)
    return f"{len(places)} bits of {len(data)} bytes, the first at {places[0]}"


def _cut_end(node: SoakNode, random: Random) -> str:
    path = _log_of(node)
    size = path.stat().st_size
    remaining = random.randrange(size // 2, size)
    with open(path, "r+b") as file:
        file.truncate(remaining)
    return f"{remaining} of {size} bytes are left"


def _log_of(node: SoakNode) -> Path:
    return node.layout.data(node.name) / "log" / "data.mdb"


def _empty(node: SoakNode) -> str:
    for path in node.layout.data(node.name).iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    return "has an empty disk"
