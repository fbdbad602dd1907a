"""Real nodes with an archive, and clients that recover from it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from broker.archive.archive import Archive
from broker.archive.object_store import open_object_store
from broker.client.asyncio_face import AsyncioClient, connect
from broker.client.received import Receipt, ReceivedEvent
from broker.event.envelope import Liveness
from broker.event.event_id import EventId
from broker.event.place import Mark
from examples.free_ports import free_port
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.traffic import POLL_SECONDS, Inbox

#: The smallest log, of 1 MiB, holds some hundred such events.
FILLING = "x" * 8_000


def node_settings(
    archive: Path | str, *, engine: str = "local", more: str = "", log: str = "1MiB"
) -> str:
    """`more` belongs to `[recovery]`."""
    return (
        f'[log]\nmax_bytes = "{log}"\n'
        f'[archive]\nlocation = "{archive}"\nevery = 0.2\n'
        f'[recovery]\nengine = "{engine}"\n{more}'
    )


def two_nodes(
    folder: Path, *, engine: str = "local", more: str = "", log: str = "1MiB"
) -> list[NodeProcess]:
    common = node_settings(folder / "archive", engine=engine, more=more, log=log)
    ports = {"a": free_port(), "b": free_port()}
    return [
        NodeProcess(
            folder / name,
            f'{common}[network]\nname = "roaming"\n'
            f'listen = ["tcp:port={ports[name]}:interface=127.0.0.1"]\n{place}\n',
            name=name,
        )
        for name, place in (("a", 'cluster = "one"'), ("b", f'join = ["127.0.0.1:{ports["a"]}"]'))
    ]


async def wait_until_archived(folder: Path | str, receipts: Sequence[Receipt]) -> None:
    """The receipts' events are in the archive."""
    archive = Archive(open_object_store(str(folder)))
    marks: dict[str, Mark] = {}
    for place in (receipt.place for receipt in receipts):
        assert place is not None
        marks[place.origin] = max(place.mark, marks.get(place.origin, place.mark))
    async with asyncio.timeout(PATIENCE):
        # The node's archiver writes it without a notification.
        while not archive.exists() or any(
            archive.state().covered_upto(o, (0, 0)) < mark for o, mark in marks.items()
        ):
            await asyncio.sleep(POLL_SECONDS)


def ids_of(receipts: Sequence[Receipt]) -> list[EventId]:
    return [receipt.event_id for receipt in receipts]


def recovered_ids(events: Sequence[ReceivedEvent]) -> list[EventId]:
    return [each.event_id for each in events if each.liveness is Liveness.RECOVERY]


async def read_first_events(
    node: NodeProcess, count: int, state: Path | None = None
) -> list[ReceivedEvent]:
    async with connect(node.endpoint, client_id="rover", state=state) as client:
        await client.when_connected(PATIENCE)
        subscription = await client.subscribe("true()", "roaming.>", durable="d")
        events: list[ReceivedEvent] = []
        async with asyncio.timeout(PATIENCE):
            while len(events) < count:
                events.append(await anext(subscription))
        if events:
            subscription.processed(events[-1])
        return events


async def resume(client: AsyncioClient) -> Inbox:
    await client.when_connected(PATIENCE)
    async with asyncio.timeout(4 * PATIENCE):
        return Inbox(await client.subscribe("true()", "roaming.>", durable="d"))


def find_child(node: NodeProcess, module: str) -> int:
    """Raises `LookupError`."""
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            status = Path(f"/proc/{pid}/stat").read_text()
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        parent = int(status.rpartition(")")[2].split()[1])
        if parent == node.process.pid and module.encode() in command:
            return pid
    raise LookupError(f"node {node.name} runs no {module}")


def kill_child(node: NodeProcess, module: str) -> None:
    os.kill(find_child(node, module), signal.SIGKILL)


async def wait_for_all(
    inbox: Inbox, receipts: Sequence[Receipt], seconds: float = PATIENCE
) -> None:
    """The error lists missing events."""
    expected = set(ids_of(receipts))
    try:
        await inbox.wait_until(lambda: expected <= set(inbox.ids), seconds)
    except TimeoutError:
        missing = sorted(map(str, expected - set(inbox.ids)))
        raise AssertionError(
            f"{len(missing)} of {len(expected)} did not come: {missing[:3]} to {missing[-3:]}; "
            f"{len(inbox.ids)} came; gaps {list(inbox.subscription.gaps)}"
        ) from None
