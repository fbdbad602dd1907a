"""The DCP paper's experiments: loss and latency over parents, two tiers, and forwarding.

Loss and forwarding run over UDP on loopback, spliced TCP between network namespaces. The others run
in virtual time, where clocks and sockets are simulated; their runs share the processors, since no
figure depends on the speed.
"""

from __future__ import annotations

import time
from typing import Any, Final

import attrs

from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.parallel_runs import ParallelRuns, parallel_runs
from benchmarks.harness.report import Report
from benchmarks.meshes import (
    ahead,
    content,
    forwarding,
    large,
    latency,
    loss,
    silence,
    spliced,
    tiers,
)
from benchmarks.meshes.ahead import AheadRun
from benchmarks.meshes.content import ContentRun
from benchmarks.meshes.forwarding import Forwarding
from benchmarks.meshes.large import LargeMesh
from benchmarks.meshes.latency import LatencyPoint
from benchmarks.meshes.loss import LossPoint
from benchmarks.meshes.silence import Silence
from benchmarks.meshes.spliced import SplicedPoint
from benchmarks.meshes.tiers import TierPoint
from benchmarks.sites.finding import make_sheet

DESCRIPTION: Final = "meshes: loss and latency by parents, two tiers, forwarding, content"

#: Events or chunks of each quick run in virtual time.
_QUICK: Final = 100
_QUICK_LOSSES: Final = (0.0, 0.1, 0.3)


@attrs.frozen
class OverSockets:
    """Results of the experiments over UDP, and over TCP."""

    forwarding: list[Forwarding]
    loss: list[LossPoint]
    spliced_tcp: list[SplicedPoint]


@attrs.frozen
class InVirtualTime:
    """Results of the experiments in virtual time."""

    latency: list[LatencyPoint]
    tiers: list[TierPoint]
    content: list[ContentRun]
    ahead: list[AheadRun]
    large: LargeMesh
    silence: list[Silence]
    spliced_p2p: list[SplicedPoint]


def run(context: BenchmarkContext) -> Report:
    over_sockets = OverSockets(
        forwarding.measure_all(context),
        loss.measure(context),
        spliced.measure_all_tcp(context),
    )
    begin = time.perf_counter()
    with parallel_runs(context) as runs:
        in_virtual_time = _measure(runs, context.quick)
    return report(over_sockets, in_virtual_time, time.perf_counter() - begin, quick=context.quick)


def _measure(runs: ParallelRuns, quick: bool) -> InVirtualTime:
    quick_silence = silence.QUICK_RATE, silence.QUICK_AFTER
    silences = [
        runs.start(
            silence.measure,
            *(transport, host),
            *(quick_silence if quick else (rate, silence.AFTER[transport])),
        )
        for transport, rate in silence.RATES.items()
        for host in silence.HOSTS[: 1 if quick else None]
    ]
    chunks = _QUICK if quick else tiers.CHUNKS
    # The longest first.
    large_mesh = runs.start(large.measure, *(large.QUICK if quick else ()))
    two_tiers = [
        runs.start(tiers.measure, each, chunks)
        for each in (_QUICK_LOSSES if quick else tiers.LOSSES)
    ]
    over_p2p = [
        runs.start(spliced.measure_p2p, each, chunks)
        for each in (_QUICK_LOSSES if quick else tiers.LOSSES)
    ]
    events = _QUICK if quick else latency.EVENTS
    latencies = [
        runs.start(latency.measure, parents, each, events)
        for parents in reversed(latency.PARENTS)
        for each in (_QUICK_LOSSES if quick else latency.LOSSES)
    ]
    events = _QUICK if quick else ahead.EVENTS
    aheads = [runs.start(ahead.measure, is_ahead, events) for is_ahead in (True, False)]
    events = 2 * _QUICK if quick else content.EVENTS
    contents = [runs.start(content.measure, each, events) for each in ("dynamic", "static")]
    points: list[LatencyPoint] = [runs.wait(each) for each in latencies]
    return InVirtualTime(
        sorted(points, key=lambda each: (each.parents, each.loss)),
        [runs.wait(each) for each in two_tiers],
        [runs.wait(each) for each in contents],
        [runs.wait(each) for each in aheads],
        runs.wait(large_mesh),
        [runs.wait(each) for each in silences],
        [runs.wait(each) for each in over_p2p],
    )


def report(
    over_sockets: OverSockets, in_virtual_time: InVirtualTime, real_seconds: float, *, quick: bool
) -> Report:
    compared = [*over_sockets.spliced_tcp, *in_virtual_time.spliced_p2p]
    found = [
        *loss.findings(over_sockets.loss),
        *latency.findings(in_virtual_time.latency),
        *tiers.findings(in_virtual_time.tiers),
        *spliced.findings(compared, in_virtual_time.tiers),
        *forwarding.findings(over_sockets.forwarding),
        *content.findings(in_virtual_time.content),
        *ahead.findings(in_virtual_time.ahead),
        *large.findings(in_virtual_time.large),
        *silence.findings(in_virtual_time.silence),
    ]
    missed = sum(each.verdict == "MISSED" for each in found)
    return Report(
        name="dcp",
        sheets=[
            make_sheet("Experiments of the DCP paper", found, quick=quick),
            loss.make_sheet(over_sockets.loss, quick=quick),
            latency.make_sheet(in_virtual_time.latency),
            tiers.make_sheet(in_virtual_time.tiers),
            spliced.make_sheet(compared),
            forwarding.make_sheet(over_sockets.forwarding),
            content.make_sheet(in_virtual_time.content),
            ahead.make_sheet(in_virtual_time.ahead),
            large.make_sheet(in_virtual_time.large),
            silence.make_sheet(in_virtual_time.silence),
        ],
        floors=[],
        notes=[
            f"missed: {missed} of {len(found)}" if missed else "no figure is missed",
            "datagrams are lost where they are received: at random, seeded, and independently for "
            "each link and direction, answers and keep-alives too",
            "matching is a fake but for forwarding: it selects everything, or each tenth event",
            "loss: the root, all routers and the client of a point are in one process; only the "
            "client loses datagrams; it requests nothing again, and goes on without an event that "
            "no parent has brought for 10 ms; 250 events/s, each in a datagram of its own; four "
            "points at a time in each of two processes; keep-alives at least 2 s apart",
            f"bounds of f^k: exact binomial, {100 * loss.CONFIDENCE:g} % between them; dropped by "
            "the system: refused at sending, or without room in the receive buffer (/proc/net/udp)",
            f"latency: one root, {1e3 * latency.DELAY:g} ms a link, loss between routers and "
            "client in both directions, default settings; added: over the mean without loss",
            "two tiers: each chunk counts that the client has delivered in order a second after "
            "the last one was published; bandwidth is not limited",
            f"spliced TCP: {spliced.CONNECTIONS} connections through three network namespaces, "
            "whose kernel drops incoming packets; without root it is left out",
            "forwarding: the router is alone in its process, with the engine of a node; root and "
            "leaves share another one, and the root publishes as fast as the slowest leaf gets the "
            "documents; documents are events with their envelopes; the leaves count and "
            "acknowledge them; the figure is of the median run",
            "a silent host: whole nodes; events/s "
            f"{', '.join(f'{rate:,} over {name}' for name, rate in silence.RATES.items())}, whose "
            "pause is that of its timers",
            "large: a process for its mesh and others; the router with the most descendants dies",
            "content: two roots, two routers, a client that selects a tenth of 200 events/s; bytes "
            "of all datagrams, without the headers of UDP and IP",
            f"ahead: two roots are the parents, and one gets each event {1e3 * ahead.BEHIND:g} ms "
            "late; 100 events/s; without acknowledgements ahead a requested one still lets the "
            "parent skip events",
            f"those in virtual time took {real_seconds:.0f} s of real time",
        ],
        figures={
            "findings": [each.as_json() for each in found],
            "loss": [attrs.asdict(each) for each in over_sockets.loss],
            "forwarding": [attrs.asdict(each) for each in over_sockets.forwarding],
            "spliced_tcp": [attrs.asdict(each) for each in over_sockets.spliced_tcp],
            **attrs.asdict(in_virtual_time),
        },
        draw=lambda figure: _draw(over_sockets, in_virtual_time, figure),
    )


def _draw(over_sockets: OverSockets, in_virtual_time: InVirtualTime, figure: Any) -> None:
    figure.set_size_inches(16, 5)
    left, middle, right = figure.subplots(1, 3)
    loss.draw(over_sockets.loss, left)
    latency.draw(in_virtual_time.latency, middle)
    tiers.draw(in_virtual_time.tiers, right)
