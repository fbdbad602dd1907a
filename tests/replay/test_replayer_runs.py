"""Random runs of the replay process in virtual time."""

from __future__ import annotations

import random

import attrs
import pytest

from broker.replay import replayer_messages as messages
from broker.replay.engine.contract import Report
from broker.replay.replay_entry import ReplayerLimits
from tests.replay.simulated_replayer import Process


@attrs.define
class Node:
    id: int
    events: int = 0
    got: int = 0
    done: bool = False
    failed: bool = False
    credit: int = 0

    def receive(self, message: messages.Message) -> None:
        match message:
            case messages.Found(_, report):
                self.events = Report.from_wire(report).events
            case messages.Page(_, first, chunks):
                assert first == self.got
                assert list(chunks) == [b"%d" % n for n in range(first, first + len(chunks))]
                self.got += len(chunks)
                self.credit -= 1
                assert self.credit >= 0
            case messages.Done():
                assert self.got == self.events
                self.done = True
            case messages.Failed():
                self.failed = True


@pytest.mark.parametrize("seed", range(200))
def test_each_event_comes_once_and_in_order_in_random_runs(seed: int) -> None:
    rng = random.Random(seed)
    process = Process(ReplayerLimits(requests=rng.choice([2, 5, 100])))
    nodes: dict[int, Node] = {}
    sizes: dict[int, int] = {}
    broken = False

    def receive_messages() -> None:
        for message in process.take():
            if (node := nodes.get(getattr(message, "id", 0))) is not None:
                node.receive(message)

    def step(action: str) -> None:
        nonlocal broken
        alive = [node for node in nodes.values() if not (node.done or node.failed)]
        if action == "ask":
            id = len(sizes) + 1
            sizes[id] = rng.randrange(12)
            nodes[id] = Node(id)
            process.ask(id)
        elif action == "more" and alive:
            node = rng.choice(alive)
            node.credit += (pages := rng.randrange(1, 4))
            process.tell(messages.More(node.id, pages))
        elif action == "cancel" and alive:
            node = nodes.pop(rng.choice(alive).id)
            process.tell(messages.Cancel(node.id))
        elif action == "finish" and process.job is not None:
            if process.cancelled or rng.random() < 0.1:
                broken = True
                process.fail()
            else:
                process.finish(*([3 * (seed % 4)] * len(process.job.requests)))
        elif action == "read" and process.pages:
            page = process.pages[0]
            process.read(min(rng.randrange(1, 4), 3 * (seed % 4) - page.first))
        elif action == "full":
            process.core.pause()
        elif action == "room":
            process.do(process.core.resume())
        elif action == "wait":
            process.wait(rng.choice([0.01, 0.1, 1.0]))
        receive_messages()

    actions = ["ask", "more", "more", "cancel", "finish", "read", "read", "read", "wait"]
    for _ in range(120):
        step(rng.choice([*actions, "full", "room"]))
    step("room")
    for _ in range(2_000):
        if all(node.done or node.failed for node in nodes.values()):
            break
        step(rng.choice(["more", "finish", "read", "wait"]))
    assert all(node.done or node.failed for node in nodes.values())
    if not broken:
        assert not any(node.failed for node in nodes.values())
    for node in nodes.values():
        process.tell(messages.Cancel(node.id))
    while process.job is not None:
        process.fail()
    process.wait(1)
    assert process.jobs == {}
    assert process.core.next_timeout() is None
