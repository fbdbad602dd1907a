from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
from twisted.internet.task import Clock
from zope.interface import implementer

from broker.config import FaultSettings, load_text
from broker.testing.memory_network import MemoryNetwork
from broker.transport.driver import IStackReceiver, StackDriver
from broker.transport.faults import (
    CorruptLayer,
    DelayLayer,
    Direction,
    DiscardLayer,
    DuplicateLayer,
    PartitionLayer,
    ShuffleLayer,
    ThrottleLayer,
    create_layers,
    describe_faults,
)
from broker.transport.faults.configuration import KINDS
from broker.transport.layer import ILayer
from broker.transport.p2p import P2PLayer
from broker.transport.view import LinkState, View

ALL_KINDS = """
[[faults]]
kind = "discard"
direction = "out"
rate = 0.25
[[faults]]
kind = "duplicate"
rate = 0.5
[[faults]]
kind = "corrupt"
direction = "in"
rate = 0.2
[[faults]]
kind = "shuffle"
rate = 0.2
maximum = "200ms"
[[faults]]
kind = "delay"
minimum = "10ms"
maximum = "30ms"
[[faults]]
kind = "throttle"
bytes_per_second = "64KiB"
[[faults]]
kind = "partition"
after = "5s"
lasts = "2s"
every = "1m"
"""


def faults(text: str) -> tuple[FaultSettings, ...]:
    return load_text(text, "node.toml").faults


def test_each_kind_makes_its_layer_with_its_settings() -> None:
    layers = create_layers(faults(ALL_KINDS), "n2", start=100.0)
    made: list[ILayer] = [
        DiscardLayer(seed=0, rate=0.25, direction=Direction.DOWN),
        DuplicateLayer(seed=0, rate=0.5),
        CorruptLayer(seed=0, rate=0.2, direction=Direction.UP),
        ShuffleLayer(seed=0, rate=0.2, hold=0.2),
        DelayLayer(seed=0, minimum=0.01, maximum=0.03),
        ThrottleLayer(bytes_per_second=65536),
        PartitionLayer(schedule=[(105.0, 107.0)], every=60.0),
    ]
    unseeded = [
        attrs.evolve(layer, seed=0) if hasattr(layer, "seed") else layer  # type: ignore[misc]
        for layer in layers
    ]
    assert unseeded == made
    assert {layer.name for layer in layers} == set(KINDS)


def test_the_documented_faults_are_read_and_made() -> None:
    document = Path(__file__).resolve().parents[3] / "docs" / "configuration.md"
    found = re.search(r"## Faults.*?```toml\n(.*?)```", document.read_text(), re.DOTALL)
    assert found is not None
    configured = faults(found[1])
    assert [layer.name for layer in create_layers(configured, "east-2", 0.0)] == ["discard"]
    assert [layer.name for layer in create_layers(configured, "west-1", 0.0)] == ["partition"]


def test_seeds_differ_between_links_and_faults_and_are_the_same_each_time() -> None:
    twice = faults('[[faults]]\nkind = "discard"\nseed = 7\n' * 2)
    other = faults('[[faults]]\nkind = "discard"\nseed = 8\n' * 2)
    assert create_layers(twice, "n1", 0.0) == create_layers(twice, "n1", 0.0)
    seeds = [
        layer.seed
        for each in (twice, other)
        for link in ("n1", "n2")
        for layer in create_layers(each, link, 0.0)
        if isinstance(layer, DiscardLayer)
    ]
    assert len(set(seeds)) == 8


def test_the_next_link_to_a_peer_has_other_faults_than_the_one_before() -> None:
    (fault,) = faults('[[faults]]\nkind = "discard"\n')
    layers = [create_layers([fault], "east-1", 0.0, earlier)[0] for earlier in (0, 1, 2, 1)]
    seeds = [layer.seed for layer in layers if isinstance(layer, DiscardLayer)]
    assert len(set(seeds)) == 3
    assert seeds[1] == seeds[3]


@pytest.mark.parametrize(
    ("pattern", "hit"),
    [
        ("*", ["n1", "n2", "east-n1", "n"]),
        ("n*", ["n1", "n2", "n"]),
        ("*n1", ["n1", "east-n1"]),
        ("n1", ["n1"]),
        ("e*t*1", ["east-n1"]),
        ("x*", []),
    ],
)
def test_a_fault_acts_on_the_links_that_its_pattern_names(pattern: str, hit: list[str]) -> None:
    configured = faults(f'[[faults]]\nkind = "throttle"\nlinks = "{pattern}"\n')
    names = ["n1", "n2", "east-n1", "n"]
    assert [name for name in names if create_layers(configured, name, 0.0)] == hit


def test_only_a_node_with_faults_logs_a_warning() -> None:
    assert describe_faults(()) == ""
    text = describe_faults(
        faults(
            '[[faults]]\nkind = "discard"\nrate = 0.25\nseed = 3\n'
            '[[faults]]\nkind = "partition"\nlinks = "n*"\ndirection = "in"\nlasts = "3s"\n'
        )
    )
    assert text.startswith("FAULTS ARE CONFIGURED: this node spoils its own links")
    assert text.endswith(
        "They are: discard (rate 0.25) both on all links; "
        "partition (after 0, every 0, lasts 3) in on links to n*"
    )


def test_every_kind_has_a_description() -> None:
    text = describe_faults(faults(ALL_KINDS))
    assert all(f"{kind} (" in text for kind in KINDS)


@implementer(IStackReceiver)
class End:
    def __init__(self, clock: Clock, incarnation: int, layers: Sequence[ILayer]) -> None:
        p2p = P2PLayer(incarnation=incarnation, keepalive=1.0, liveness=4.0)
        self.driver = StackDriver([*layers, p2p], clock, self).join("peer")
        self.messages: list[bytes] = []
        self.views: list[LinkState] = []

    def messages_received(self, peer: object, messages: Sequence[bytes]) -> None:
        self.messages += messages
        self.driver.consumed(len(messages))

    def view_changed(self, peer: object, view: View) -> None:
        self.views.append(view.state)

    def writable_changed(self, peer: object, writable: bool) -> None:
        """Ignored: little is sent."""


@pytest.mark.parametrize("kind", [*KINDS, "all"])
def test_a_link_with_configured_faults_delivers_everything_once_and_in_order(kind: str) -> None:
    each = [part for part in ALL_KINDS.split("[[faults]]") if f'"{kind}"' in part]
    configured = faults(ALL_KINDS if kind == "all" else "[[faults]]" + each[0])
    clock = Clock()
    network = MemoryNetwork(clock, latency=0.01)
    layers = create_layers(configured, "n2", clock.seconds())
    one, two = End(clock, 1, layers), End(clock, 2, [])
    network.listen("n2", two.driver.attach)
    attempts = 0

    def run(seconds: float) -> None:
        nonlocal attempts
        for _ in range(round(seconds * 100)):
            clock.advance(0.01)
            if not one.driver.is_attached:
                attempts += 1
                network.connect("n2").addCallback(one.driver.attach)
                clock.advance(0.02)

    sent = [b"%d" % number for number in range(300)]
    for message in sent:
        one.driver.send([message])
        run(0.05)
    for _ in range(600):
        if len(two.messages) == len(sent):
            break
        run(1.0)
    assert two.messages == sent
    # These break a connection, the others only delay it.
    assert (attempts > 1) == (kind in ("discard", "corrupt", "shuffle", "partition", "all"))
