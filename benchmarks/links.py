"""How many packets a second links carry between two processes, with and without loss."""

from __future__ import annotations

import socket
from typing import Any, Final

import attrs

from benchmarks.harness.actor import Actor
from benchmarks.harness.flow import PATIENCE
from benchmarks.harness.lab import Lab
from benchmarks.harness.report import Floor, Report, Sheet, number

DESCRIPTION: Final = "packets a second over tcp, udp and multicast links that lose datagrams"

SIZES: Final = (262, 4096)
LOSSES: Final = (0.0, 0.01, 0.1, 0.2)
#: Bytes that each run carries.
_BYTES: Final = 30_000_000
#: TCP's own losses can not be made in the sending process.
KINDS: Final = (("tcp", LOSSES[:1]), ("udp", LOSSES), ("multicast", LOSSES))
#: Packets of 262 bytes a second over UDP without loss, on the reference machine.
FLOOR: Final = 30_000.0


@attrs.frozen
class Run:
    """One link, measured once."""

    kind: str
    size: int
    loss: float
    rate: float
    """Packets a second that arrived."""
    sending: float
    """CPU microseconds of the sender for each packet."""
    receiving: float
    missing: int
    """Packets told as a gap."""


def run(lab: Lab) -> Report:
    """All kinds, sizes and losses, one after another."""
    runs = []
    for kind, losses in KINDS:
        for size in SIZES:
            for loss in losses:
                lab.say(f"{kind}, {size} bytes, {loss:.0%} lost")
                count = (_BYTES // 10 if lab.quick else _BYTES) // size
                runs.append(_measured(lab, kind, size, loss, count))
    return _report(runs)


def _measured(lab: Lab, kind: str, size: int, loss: float, count: int) -> Run:
    task = {"kind": kind, "size": size, "count": count, "loss": 0.0, "port": _free_port()}
    receiver = Actor(lab.children, "link_end", {**task, "part": "receive"})
    task["port"] = receiver.hear("ready", PATIENCE)["port"]
    sender = Actor(lab.children, "link_end", {**task, "part": "send", "loss": loss})
    if kind == "multicast":
        sender.hear("ready", PATIENCE)
    sent = sender.hear("sent", PATIENCE)
    came = receiver.hear("done", PATIENCE)
    sender.end()
    receiver.end()
    arrived = count - came["missing"]
    return Run(
        *(kind, size, loss, arrived / (came["ended"] - sent["began"])),
        *(sent["cpu"] / count * 1e6, came["cpu"] / count * 1e6, came["missing"]),
    )


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("", 0))
        return int(sock.getsockname()[1])


def _report(runs: list[Run]) -> Report:
    columns = ("link", "bytes", "lost", "packets/s", "MB/s", "send us", "receive us", "gaps")
    rows = [
        (
            *(each.kind, str(each.size), f"{each.loss:.0%}", number(each.rate)),
            number(each.rate * each.size / 1e6),
            *(f"{each.sending:.1f}", f"{each.receiving:.1f}", str(each.missing)),
        )
        for each in runs
    ]
    best = next(each for each in runs if (each.kind, each.size, each.loss) == ("udp", 262, 0.0))
    return Report(
        name="links",
        sheets=[Sheet("one way between two processes on loopback", columns, rows)],
        floors=[Floor("udp, 262 bytes, no loss", best.rate, FLOOR, "packets/s")],
        notes=[
            "the sending process drops its own datagrams, seeded; what the receiver sends arrives",
            "TCP is measured without loss only; a group's rate is a setting (12.5 MB/s)",
            "CPU: of the sender until all was given to the link, of the receiver until all came",
        ],
        figures={"runs": [attrs.asdict(each) for each in runs]},
        draw=lambda figure: _draw(runs, figure),
    )


def _draw(runs: list[Run], figure: Any) -> None:
    axes = figure.subplots(1, len(SIZES), sharey=False)
    for axis, size in zip(axes, SIZES, strict=True):
        for kind, _ in KINDS:
            chosen = [each for each in runs if (each.kind, each.size) == (kind, size)]
            losses = [each.loss * 100 for each in chosen]
            axis.plot(losses, [each.rate for each in chosen], marker="o", label=kind)
        axis.set_title(f"{size} bytes")
        axis.set_xlabel("datagrams lost, %")
        axis.set_ylabel("packets/s")
        axis.set_ylim(bottom=0)
        axis.legend()
