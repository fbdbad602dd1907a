"""Faults of the soak, by the names of `--faults`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from tests.soak.faults import archive, clients, disks, links, processes
from tests.soak.world import World

#: Repairs only damage that an operator would not see.
Fault: TypeAlias = Callable[[World], Awaitable[None]]

FAULTS: Final[Mapping[str, Fault]] = {
    "kill": processes.kill,
    "kill-many": processes.kill_many,
    "stop": processes.stop,
    "freeze": processes.freeze,
    "clock": processes.step_clock,
    "cut": links.cut,
    "partition": links.partition,
    "one-way": links.one_way,
    "half-open": links.half_open,
    "packet-loss": links.packet_loss,
    "full-disk": disks.fill,
    "flip": disks.flip,
    "log-cut": disks.cut_log,
    "older-copy": disks.older_copy,
    "wipe": disks.wipe,
    "archive-root": archive.cut_root,
    "archive-cut": archive.cut_object,
    "archive-delete": archive.delete_object,
    "archive-lost": archive.move_away,
    "archive-slow": archive.pause_archivers,
    "archiver-kill": archive.kill_archiver,
    "client-kill": clients.kill,
    "client-close": clients.close,
    "roam": clients.roam,
    "types": clients.new_type,
}
