from __future__ import annotations

from pathlib import Path

from twisted.logger import capturedLogs, formatEvent

from broker.child.input_report import CODEC, InputReport
from broker.config import load_text
from broker.config.inputs import MAX_INPUTS
from broker.node.inputs import MIN_RESTART_DELAY, Inputs, build_inputs
from broker.rate_limited_log import MAX_ENTRIES
from tests.child.simulated_child import Reactor


def start_inputs(count: int = 1) -> tuple[Inputs, Reactor]:
    tables = "".join(
        f'[inputs.i{number}]\nsources = ["in"]\nwatch = true\n' for number in range(count)
    )
    reactor = Reactor(CODEC)
    inputs = build_inputs(load_text(f'[node]\ndata = "d"\n{tables}', "node.toml"), reactor)
    inputs.start()
    return inputs, reactor


def test_each_input_has_its_process_and_its_table() -> None:
    inputs, reactor = start_inputs(MAX_INPUTS)
    processes = reactor.processes
    tables = {each.arguments[each.arguments.index("--published") + 1] for each in processes}
    assert tables == {str(Path("d/inputs", f"i{number}.db")) for number in range(MAX_INPUTS)}
    ended: list[None] = []
    inputs.stop().addCallback(ended.append)
    for process in processes:
        # The end of the connection tells the process to stop.
        assert process.connection.disconnecting
        assert not ended
        process.close()
        process.end()
    assert ended == [None]
    reactor.advance(3600)
    assert len(processes) == MAX_INPUTS


def test_status_shows_the_counts_and_the_last_error_of_each_process() -> None:
    inputs, reactor = start_inputs()
    with capturedLogs() as events:
        reactor.newest.send(InputReport(5, 1, 3, 0, 1), InputReport(5, 1, 3, 2, 1))
        reactor.newest.write_output(b"a.xml:1: wrong\x1b\n")
        (row,) = inputs.snapshot()
        assert row == {
            "name": "i0",
            "pid": 4711,
            "found": 5,
            "known": 1,
            "sent": 3,
            "durable": 2,
            "refused": 1,
            "restarts": 0,
            "not_logged": 0,
            "last_error": "a.xml:1: wrong?",
        }
        reactor.newest.end()
        assert inputs.snapshot()[0]["pid"] is None
        reactor.advance(MIN_RESTART_DELAY)
        (row,) = inputs.snapshot()
        assert (len(reactor.processes), row["restarts"], row["found"]) == (2, 1, 0)
    durable, wrong, ended = map(formatEvent, events)
    assert durable == "input i0: the first event is durable"
    assert wrong == "input i0: a.xml:1: wrong?"
    assert ended.startswith("input i0: the process has ended: ")


def test_a_hostile_feed_fills_neither_the_log_nor_the_memory() -> None:
    inputs, reactor = start_inputs()
    with capturedLogs() as events:
        for _ in range(3):
            reactor.newest.write_output(b"the same\n")
        for number in range(2 * MAX_ENTRIES):
            reactor.newest.write_output(b"%d: " % number + b"x" * 5000 + b"\n")
    lines = [formatEvent(event) for event in events]
    assert len(lines) == MAX_ENTRIES
    assert max(map(len, lines)) < 500
    (row,) = inputs.snapshot()
    assert row["not_logged"] == MAX_ENTRIES + 1
