"""The RCM paper's experiments in virtual time, and over TCP: awareness, and floors of nodes.

In the experiments each site has the real layers of the link stack `rcm` and a core of an order;
sockets and clocks are simulated. Their runs share the processors, since no figure depends on the
speed.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

import attrs

from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.parallel_runs import ParallelRuns, parallel_runs
from benchmarks.harness.report import Report
from benchmarks.sites import (
    awareness,
    fan_out,
    long_run,
    messages,
    rate,
    reliability,
    restarts,
    streams,
    suspended,
    variants,
)
from benchmarks.sites.awareness import Awareness
from benchmarks.sites.fan_out import FanOut
from benchmarks.sites.finding import Finding, make_sheet
from benchmarks.sites.long_run import LongRun
from benchmarks.sites.messages import MessageRun
from benchmarks.sites.rate import Rate
from benchmarks.sites.reliability import Reliability
from benchmarks.sites.restarts import Restarts
from benchmarks.sites.streams import StreamRun
from benchmarks.sites.suspended import Suspended
from benchmarks.sites.variants import Latency
from broker.transport.order import VARIANTS

DESCRIPTION: Final = "RCM: awareness, reliability, rate, latency, restarts, 12 hours, variants"

#: Virtual seconds of a quick run; otherwise an hour.
_QUICK: Final = 200.0
_QUICK_DOWNS: Final = (0.0, 15.0, 60.0)


@attrs.frozen
class Floors:
    streams: list[StreamRun]
    messages: list[MessageRun]
    suspended: Suspended
    awareness: Awareness
    """Over real TCP."""
    fan_outs: list[FanOut]


@attrs.frozen
class Results:
    awareness: Awareness
    reliability: list[Reliability]
    rate: Rate
    rate_with_answers: Rate
    restarts: Restarts
    long_run: LongRun
    variants: list[Latency]


def run(context: BenchmarkContext) -> Report:
    floors = Floors(
        streams.measure(context),
        messages.measure(context),
        suspended.measure(context),
        _measure_tcp(context),
        fan_out.measure_all(),
    )
    begin = time.perf_counter()
    with parallel_runs(context) as runs:
        results = _measure(runs, context.quick)
    return report(results, floors, time.perf_counter() - begin, quick=context.quick)


def _measure_tcp(context: BenchmarkContext) -> Awareness:
    seconds = awareness.UP if context.quick else awareness.TCP_SECONDS
    context.report_progress("awareness over TCP")
    return asyncio.run(awareness.measure_over_tcp(seconds))


def _measure(runs: ParallelRuns, quick: bool) -> Results:
    seconds = _QUICK if quick else awareness.HOUR
    # The longest first.
    long = runs.start(long_run.measure, 0.2 if quick else long_run.HOURS)
    latencies = [
        runs.start(variants.measure, name, each, 2.0 if quick else None)
        for name in VARIANTS
        for each in variants.RATES
    ]
    reliable = [
        runs.start(reliability.measure, layer, down, seconds)
        for layer in reliability.LAYERS
        for down in (_QUICK_DOWNS if quick else reliability.DOWNS)
    ]
    aware = runs.start(awareness.measure, seconds)
    rates = [runs.start(rate.measure, has_answers, seconds) for has_answers in (False, True)]
    restarted = runs.start(restarts.measure, 2 if quick else restarts.ROUNDS)
    return Results(
        runs.wait(aware),
        [runs.wait(each) for each in reliable],
        runs.wait(rates[0]),
        runs.wait(rates[1]),
        runs.wait(restarted),
        runs.wait(long),
        [runs.wait(each) for each in latencies],
    )


def report(results: Results, floors: Floors, real_seconds: float, *, quick: bool) -> Report:
    found = [
        *awareness.findings(results.awareness),
        *awareness.findings(floors.awareness, "awareness, TCP"),
        *reliability.findings(results.reliability),
        *rate.findings(results.rate, results.rate_with_answers),
        *restarts.findings(results.restarts),
        *long_run.findings(results.long_run),
        *variants.findings(results.variants),
    ]
    missed = sum(each.verdict == "MISSED" for each in found)
    return Report(
        name="rcm",
        sheets=[
            make_sheet("Experiments of the RCM paper", found, quick=quick),
            streams.make_sheet(floors.streams),
            messages.make_sheet(floors.messages),
            fan_out.make_sheet(floors.fan_outs),
        ],
        floors=[
            *streams.make_floors(floors.streams),
            messages.make_floor(floors.messages),
            suspended.make_floor(floors.suspended),
            *fan_out.make_floors(floors.fan_outs),
        ],
        notes=[
            f"{missed} figures missed" if missed else "all figures are as they must be",
            "four sites, 56 kbit/s and 100 ms one way, messages of 100 bytes, 2 a second of each "
            "site; variants: 10 Mbit/s and 50 ms. The paper does not tell its latency",
            "a link that is down is silent, and its bytes wait, as with TCP",
            "rate: one site of the logical order, the order of the paper; clock answers: a site "
            "without messages answers one with its clock after 50 ms (K20)",
            f"restarts: {restarts.DYNAMIC:g} s in which links are lost and sites killed, then calm",
            "the schedule of 12 hours implies: down from an outage's suspicion and 60 s until the "
            "reconnection, with the means of both that were measured: "
            f"{results.long_run.suspicion:.1f} s after the loss, "
            f"{results.long_run.reconnection:.1f} s after the repair",
            "awareness, TCP: ten minutes of real time, with relays between sites in one process",
            f"those in virtual time took {real_seconds:.0f} s of real time",
            f"stream: {streams.EVENTS:,} prebuilt events as fast as the session takes them; the "
            "stacks take turns, and the ratio is the median of neighbouring portions; rcm delivers "
            "all events at all sites",
            "fan-outs: bytes of connections and datagrams, without the headers of TCP, UDP and IP; "
            f"{fan_out.MESSAGES} messages; the floors are of {fan_out.SIZES[0]} bytes, an event of "
            "the examples has about 950",
            "messages: both kinds of sites are in one process and have the link stack and the "
            "multiplexer; each client sends its next message when all sites have the last one; the "
            "median of the ratios of alternate runs",
            f"memory: without files; {suspended.RATE} messages a second, at the sites that suspect "
            "a third one, whose process is stopped",
        ],
        figures={
            **_figures(results, found),
            "streams": [attrs.asdict(each) for each in floors.streams],
            "messages": [attrs.asdict(each) for each in floors.messages],
            "suspended": attrs.asdict(floors.suspended),
            "fan_outs": [attrs.asdict(each) for each in floors.fan_outs],
        },
        draw=lambda figure: _draw(results, figure),
    )


def _figures(results: Results, found: list[Finding]) -> dict[str, Any]:
    return {
        "findings": [each.as_json() for each in found],
        "reliability": [attrs.asdict(each) for each in results.reliability],
        "restarts": results.restarts.connected,
        "long_run": attrs.asdict(results.long_run),
        "variants": [attrs.asdict(each) for each in results.variants],
    }


def _draw(results: Results, figure: Any) -> None:
    figure.set_size_inches(16, 9)
    axes = figure.subplots(2, 3).flat
    awareness.draw(results.awareness, next(axes))
    reliability.draw(results.reliability, next(axes))
    rate.draw(results.rate, next(axes))
    restarts.draw(results.restarts, next(axes))
    long_run.draw(results.long_run, next(axes))
    variants.draw(results.variants, next(axes))
