"""Chunks over two links with a relay between them, against two tiers of a mesh (DCP D76, D78).

Robust P2P runs in virtual time with the delay of the mesh's links. TCP is that of the kernel,
between network namespaces that lose packets: its links have no delay, which favours it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

import attrs
from zope.interface import implementer

from benchmarks.harness.actor import Actor
from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.flights import PAYLOAD_BYTES
from benchmarks.harness.report import Sheet, format_number
from benchmarks.latency import percentile
from benchmarks.meshes.lossy_hosts import LossyHosts, find_obstacle
from benchmarks.meshes.tiers import DELAY, LATENCY_LOSS, RATE, TierPoint
from benchmarks.sites.finding import Finding
from broker.errors import BrokerError
from broker.testing.datagram_network import DatagramFaults, DatagramNetwork
from broker.testing.virtual_time import VirtualTime
from broker.transport.arq.connection_endpoint import ConnectionEndpoint
from broker.transport.arq.settings import ArqSettings
from broker.transport.socket import ISocketChannel, ISocketReceiver

TCP, P2P = "spliced TCP", "spliced Robust P2P"
#: Connections over the same links, and chunks of each.
CONNECTIONS: Final = 20
CHUNKS: Final = 150
QUICK_CHUNKS: Final = 10
TCP_LOSSES: Final = (0.0, 0.1, 0.2, 0.3)
#: Most of the p95 latency of TCP, at `LATENCY_LOSS`.
SHARE_OF_TCP: Final = 0.25
#: Seconds after the last chunk of a connection; those that come later do not count.
_END: Final = 1.0
_NUMBER: Final = struct.Struct(">Q")
_TIMEOUT: Final = 180.0
_MOST_FRAME: Final = 1 << 16


@attrs.frozen
class SplicedPoint:
    transport: str
    loss: float
    chunks: int
    arrived: int
    p95: float
    """Milliseconds of those that arrived."""

    @property
    def share(self) -> float:
        return self.arrived / self.chunks


# ------------------------------------------------------------------------------- Robust P2P


@implementer(ISocketReceiver)
class _End:
    def __init__(self, take: Callable[[Sequence[bytes]], object]) -> None:
        self._take = take

    def packets_received(self, packets: Sequence[bytes]) -> None:
        self._take(packets)

    def channel_lost(self, error: BrokerError | None) -> None:
        """Chunks that are missing then count as lost."""

    def writable_changed(self, writable: bool) -> None:
        """The rate is low."""


def measure_p2p(loss: float, chunks: int, seed: int = 8) -> SplicedPoint:
    time = VirtualTime(seed)
    network = DatagramNetwork(time.clock, seed, DatagramFaults(delay=DELAY))
    arrivals: dict[int, float] = {}
    onward: list[ISocketChannel] = []

    def arrive(packets: Sequence[bytes]) -> None:
        for each in packets:
            arrivals[_NUMBER.unpack_from(each)[0]] = time.clock.seconds()

    def accept(take: Callable[[Sequence[bytes]], object]) -> Callable[[ISocketChannel], None]:
        def set_receiver(channel: ISocketChannel) -> None:
            channel.receiver = _End(take)

        return set_receiver

    def open_end(name: str, take: Callable[[Sequence[bytes]], object]) -> ConnectionEndpoint:
        socket = network.bind(name, lambda batch: endpoint.datagrams_received(batch))
        endpoint = ConnectionEndpoint(
            *(time.clock, socket, accept(take), ArqSettings()),
            *(Random(f"{seed} {name}").randbytes, _MOST_FRAME),
        )
        return endpoint

    server = open_end("server", lambda packets: None)
    relay = open_end("relay", lambda packets: onward[0].send(packets))
    open_end("client", arrive)
    channels: list[ISocketChannel] = []
    for endpoint, target, found in ((relay, "client", onward), (server, "relay", channels)):
        connected: Any = endpoint.connect(target)
        connected.addCallback(found.append)
        time.run_until(lambda found=found: bool(found))  # type: ignore[misc]
        found[0].receiver = _End(lambda packets: None)
    network.faults = DatagramFaults(delay=DELAY, loss=loss)
    sent: list[float] = []
    for number in range(chunks):
        channels[0].send([_NUMBER.pack(number).ljust(PAYLOAD_BYTES, b".")])
        sent.append(time.clock.seconds())
        time.run(PAYLOAD_BYTES / RATE)
    time.run(_END)
    latencies = sorted(at - sent[number] for number, at in arrivals.items())
    return SplicedPoint(P2P, loss, chunks, len(latencies), 1e3 * percentile(latencies, 0.95))


# ------------------------------------------------------------------------------- TCP


def measure_tcp(context: BenchmarkContext, loss: float, chunks: int) -> SplicedPoint:
    """Raises `BenchmarkFailed` where there can be no namespaces."""
    task = {
        "size": PAYLOAD_BYTES,
        "gap": PAYLOAD_BYTES / RATE,
        "connections": CONNECTIONS,
        "chunks": chunks,
        "end": _END,
    }
    with LossyHosts(loss) as hosts:
        actors = []
        for part, host, target in (
            ("receive", hosts.client, ""),
            ("relay", hosts.relay, hosts.client.address),
            ("send", hosts.server, hosts.relay.address),
        ):
            places = {"address": host.address, "onward": target}
            actor = Actor(
                *(context.children, "spliced_tcp", {**task, "part": part, **places}),
                prefix=host.prefix,
            )
            actor.wait_for("begun" if part == "send" else "ready", _TIMEOUT)
            actors.append(actor)
        receiver, _, sender = actors
        sender.wait_for("done", _TIMEOUT)
        receiver.start_run()
        found: list[float] = sorted(receiver.wait_for("done", _TIMEOUT)["latencies"])
        for each in actors:
            each.stop()
    p95 = 1e3 * percentile(found, 0.95)
    return SplicedPoint(TCP, loss, CONNECTIONS * chunks, len(found), p95)


def measure_all_tcp(context: BenchmarkContext) -> list[SplicedPoint]:
    """Return nothing where there can be no namespaces."""
    if find_obstacle():
        return []
    points = []
    for loss in (LATENCY_LOSS,) if context.quick else TCP_LOSSES:
        context.report_progress(f"{TCP}: {loss:.0%} lost")
        points.append(measure_tcp(context, loss, QUICK_CHUNKS if context.quick else CHUNKS))
    return points


# ------------------------------------------------------------------------------- report


def findings(points: Sequence[SplicedPoint], mesh: Sequence[TierPoint]) -> list[Finding]:
    latency = next(each.p95 for each in mesh if each.loss == LATENCY_LOSS)
    return [
        Finding(
            *("two tiers", f"p95 latency at {LATENCY_LOSS:.0%} loss, to that of {each.transport}"),
            *(latency / each.p95, ""),
            most=SHARE_OF_TCP if each.transport == TCP else None,
        )
        for each in points
        if each.loss == LATENCY_LOSS
    ]


def make_sheet(points: Sequence[SplicedPoint]) -> Sheet:
    rows = [
        (
            *(each.transport, f"{each.loss:.0%}", format_number(each.chunks)),
            *(f"{100 * each.share:.2f} %", f"{each.p95:,.1f}"),
        )
        for each in points
    ]
    columns = ("transport", "loss", "chunks", "arrived within a second", "p95 ms")
    return Sheet("Two links with a relay, for comparison with two tiers", columns, rows)
