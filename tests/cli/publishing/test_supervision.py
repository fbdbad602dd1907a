from __future__ import annotations

import asyncio
import socket

from broker.child.connection import MAX_MESSAGE_BYTES
from broker.child.input_report import CODEC, InputReport
from broker.cli.publishing.publication import Refusal, SourceLocation
from broker.cli.publishing.supervision import REPORTS_OF_A_PORTION, supervised_by_node
from broker.cli.publishing.tally import MAX_REPORTED, Tally
from broker.cli.stop_signal import Stop
from broker.transport.socket.framing import FrameDecoder

REFUSAL = Refusal(SourceLocation("a", 1), "wrong")
PATIENCE = 30.0


def test_the_node_gets_counts_and_stops_the_process_by_closing_its_end() -> None:
    async def run() -> InputReport:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        stop = Stop()
        with theirs:
            async with supervised_by_node(Tally(print, found=5, sent=4), stop, theirs.fileno()):
                data = await asyncio.get_running_loop().sock_recv(ours, 4096)
                assert not stop
                ours.close()
                await asyncio.wait_for(stop.pause(PATIENCE), PATIENCE)
                assert stop
        (frame,) = FrameDecoder(MAX_MESSAGE_BYTES).feed(data)
        report = CODEC.decode(frame)
        assert isinstance(report, InputReport)
        return report

    assert asyncio.run(run()) == InputReport(5, 0, 4, 0, 0)


def test_a_source_that_fails_for_long_is_reported_again() -> None:
    async def run() -> list[str]:
        lines: list[str] = []
        ours, theirs = socket.socketpair()
        tally = Tally(lines.append)
        with ours, theirs:
            async with supervised_by_node(tally, Stop(), theirs.fileno(), interval=0.0):
                for _ in range(2 * MAX_REPORTED):
                    tally.count_refused(REFUSAL)
                assert len(lines) == MAX_REPORTED + 1
                for _ in range(2 * REPORTS_OF_A_PORTION):
                    await asyncio.sleep(0)
                tally.count_refused(REFUSAL)
        return lines

    assert asyncio.run(run())[MAX_REPORTED + 1 :] == [str(REFUSAL)]
