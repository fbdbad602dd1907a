from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import Final

from tests.soak.world import World

ROOT: Final = "archive.json"


async def cut_root(world: World) -> None:
    _cut(world, world.layout.archive / ROOT)


async def cut_object(world: World) -> None:
    path = _object(world)
    if path is not None:
        _cut(world, path)


def _cut(world: World, path: Path) -> None:
    # The archive may be moved away.
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        size = path.stat().st_size
        remaining = world.random.randrange(size) if size else 0
        world.note(f"archive-cut: {remaining} of {size} bytes are left of {_name(world, path)}")
        with open(path, "r+b") as file:
            file.truncate(remaining)


async def delete_object(world: World) -> None:
    path = _object(world)
    if path is not None:
        world.note(f"archive-delete: {_name(world, path)}")
        path.unlink(missing_ok=True)


async def move_away(world: World) -> None:
    archive = world.layout.archive
    moved = archive.with_name("archive-moved")
    if not archive.exists() or moved.exists():
        return
    seconds = world.random.uniform(2.0, 10.0)
    world.note(f"archive-lost: for {seconds:.1f} s")
    archive.rename(moved)
    # So that no node creates another archive.
    archive.write_text("no archive")
    try:
        await asyncio.sleep(seconds)
    finally:
        archive.unlink()
        moved.rename(archive)


async def pause_archivers(world: World) -> None:
    pids = [pid for node in world.nodes.values() for pid in node.archivers()]
    seconds = world.random.uniform(2.0, 10.0)
    world.note(f"archive-slow: {len(pids)} archivers for {seconds:.1f} s")
    _send(pids, signal.SIGSTOP)
    try:
        await asyncio.sleep(seconds)
    finally:
        _send(pids, signal.SIGCONT)


async def kill_archiver(world: World) -> None:
    node = world.random.choice(list(world.nodes.values()))
    world.note(f"archiver-kill: {node.name}")
    _send(node.archivers(), signal.SIGKILL)


def _send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _object(world: World) -> Path | None:
    archive = world.layout.archive
    if not archive.is_dir():
        return None
    found = sorted(path for path in archive.rglob("*") if path.is_file() and path.name != ROOT)
    return world.random.choice(found) if found else None


def _name(world: World, path: Path) -> str:
    return str(path.relative_to(world.layout.archive))
