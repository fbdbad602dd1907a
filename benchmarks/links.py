"""Packets a second over links between two processes, with and without loss.

Runs alternate, so that a disturbance hits all of them.
"""

from __future__ import annotations

import socket
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs

from benchmarks.harness.actor import Actor
from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.flow import TIMEOUT
from benchmarks.harness.report import Floor, Report, Sheet, format_number
from examples.free_ports import free_port

DESCRIPTION: Final = "packets a second over tcp, udp and multicast links that lose datagrams"

SIZES: Final = (262, 4096)
LOSSES: Final = (0.0, 0.01, 0.1, 0.2)
ROUNDS: Final = 3
#: Of each run.
_BYTES: Final = 10_000_000
#: TCP's own losses can not be created in the sending process.
KINDS: Final = (("tcp", LOSSES[:1]), ("udp", LOSSES), ("multicast", LOSSES))
#: With 262 bytes over UDP without loss, on the reference machine.
FLOOR: Final = 30_000.0


@attrs.frozen
class Run:
    kind: str
    size: int
    loss: float
    rate: float
    """Arrived packets a second."""
    sending: float
    """Processor microseconds for each packet."""
    receiving: float
    missing: int
    """Packets reported as a gap."""


#: By kind, size and loss.
Works: TypeAlias = Mapping[tuple[str, int, float], Sequence[Run]]


def run(context: BenchmarkContext) -> Report:
    rounds = 1 if context.quick else ROUNDS
    works: dict[tuple[str, int, float], list[Run]] = {}
    for round_number in range(1, rounds + 1):
        for kind, losses in KINDS:
            for size in SIZES:
                for loss in losses:
                    context.report_progress(
                        f"round {round_number} of {rounds}: {kind}, {size} B, {loss:.0%} lost"
                    )
                    count = (_BYTES // 10 if context.quick else _BYTES) // size
                    measured = _measure_run(context, kind, size, loss, count)
                    works.setdefault((kind, size, loss), []).append(measured)
    return report(works)


def _measure_run(context: BenchmarkContext, kind: str, size: int, loss: float, count: int) -> Run:
    task = {
        "kind": kind,
        "size": size,
        "count": count,
        "loss": 0.0,
        "port": free_port(socket.SOCK_DGRAM),
    }
    receiver = Actor(context.children, "link_end", {**task, "part": "receive"})
    task["port"] = receiver.wait_for("ready", TIMEOUT)["port"]
    sender = Actor(context.children, "link_end", {**task, "part": "send", "loss": loss})
    if kind == "multicast":
        sender.wait_for("ready", TIMEOUT)
    sent = sender.wait_for("sent", TIMEOUT)
    came = receiver.wait_for("done", TIMEOUT)
    sender.stop()
    receiver.stop()
    arrived = count - came["missing"]
    return Run(
        *(kind, size, loss, arrived / (came["ended"] - sent["began"])),
        *(sent["cpu"] / count * 1e6, came["cpu"] / count * 1e6, came["missing"]),
    )


def report(works: Works) -> Report:
    columns = ("link", "bytes", "lost", "packets/s", "min-max", "MB/s", "no loss = 1")
    rows = []
    for (kind, size, loss), runs in works.items():
        rates = [run.rate for run in runs]
        rate, unspoilt = statistics.median(rates), _median(works[kind, size, 0.0], _rate)
        rows.append(
            (
                *(kind, str(size), f"{loss:.0%}", format_number(rate)),
                f"{format_number(min(rates))}-{format_number(max(rates))}",
                *(format_number(rate * size / 1e6), f"{rate / unspoilt:.2f}"),
                f"{_median(runs, lambda run: run.sending):.1f}",
                f"{_median(runs, lambda run: run.receiving):.1f}",
                str(sum(run.missing for run in runs)),
            )
        )
    best = _median(works["udp", 262, 0.0], _rate)
    return Report(
        name="links",
        sheets=[
            Sheet(
                "One way between two processes on loopback, median of the runs",
                (*columns, "send us", "receive us", "gaps"),
                rows,
            )
        ],
        floors=[Floor("udp, 262 bytes, no loss", best, FLOOR, "packets/s")],
        notes=[
            f"a packet is as long as the event that it stands for; {_BYTES / 1e6:g} MB a run, "
            "given to the link 100 packets at a time as long as it takes them",
            "time: from the first packet sent to the last one that arrived; packets that a group "
            "reports as a gap have not arrived",
            "lost: the sending process drops this share of its datagrams at random, seeded; "
            "answers of the receiver arrive",
            "TCP is measured without loss only: it is the system's own; the rate of a group is a "
            "setting (12.5 MB/s), and no group is faster",
            "CPU us/packet: of the sender until all was given to the link, of the receiver from "
            "the first packet to the last one",
        ],
        figures={"runs": [attrs.asdict(run) for runs in works.values() for run in runs]},
        draw=lambda figure: _draw(works, figure),
    )


def _rate(run: Run) -> float:
    return run.rate


def _median(runs: Sequence[Run], figure: Callable[[Run], float]) -> float:
    return statistics.median([figure(run) for run in runs])


def _draw(works: Works, figure: Any) -> None:
    axes = figure.subplots(1, len(SIZES), sharey=False)
    for axis, size in zip(axes, SIZES, strict=True):
        for kind, losses in KINDS:
            rates = [_median(works[kind, size, loss], _rate) for loss in losses]
            axis.plot([loss * 100 for loss in losses], rates, marker="o", label=kind)
        axis.set_title(f"{size} bytes")
        axis.set_xlabel("datagrams lost, %")
        axis.set_ylabel("packets/s")
        # TCP is faster by an order of magnitude.
        axis.set_yscale("log")
        axis.legend()
