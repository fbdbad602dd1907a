"""`explain` of an event names the stack that carries its flow at each node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import pytest

from broker.config import Settings
from broker.config.stacks import DEFAULT_STACK, Plugins, StackInstance
from broker.event.envelope import EventType, SecurityLevel
from broker.event.writer import write_event
from broker.log.event_log import EventLog
from broker.testing.flights import flight
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_reader import Reader, read
from broker.testing.wrapped_transport import failing
from broker.tracing import log_search, node_trace
from tests.simulation.network.ordering_transport import OrderingTransport
from tests.simulation.network.other_transport import OtherTransport
from tests.simulation.network.test_event_verdicts import (
    ThreeNodes,
    subscription_verdicts,
    verdicts,
)
from tests.simulation.test_identities import ACCOUNTS

PATTERN = "asdi.>"
RADAR = {"name": "radar", "use": "other", "error": ""}
OTHER = StackInstance("radar", use="other")
NONE = {"name": "", "use": "", "error": ""}
ADMINISTRATOR = {"account": "all", "secret": "right", "asker": "all"}


class TwoNodes(ThreeNodes):
    """`a` and `b`; a stack carries `PATTERN` in the nodes `carrying`."""

    def __init__(self) -> None:
        self.world = NetworkWorld(1, settings=attrs.evolve(Settings(), accounts=ACCOUNTS))
        self.transport = OtherTransport(self.world, 0.01)
        self._incarnation = 0

    def begin(
        self,
        stack: StackInstance = OTHER,
        carrying: Sequence[str] = "ab",
        plugins: Plugins | None = None,
    ) -> None:
        if plugins is not None:
            self.world.plugins[stack.use] = plugins
        for name in "ab":
            self.world.add(name, "one", start=False, join=self.world.names[:1])
            self.world.set_stacks(name, {PATTERN: stack} if name in carrying else {})
            self.world.start(name)
        self.world.run(4.0)
        self.publisher = self.join("publisher", account="all", secret="right")
        self.readers = [self._subscribe(name) for name in "ab"]

    def _subscribe(self, name: str) -> Reader:
        client = self.world.client(f"at-{name}", name, account="all", secret="right")
        reader = Reader(self.world, client)
        self.world.run_until(lambda: reader.is_flowing)
        return reader

    def publish_now(self, stream: str = "asdi.zbw") -> bytes:
        event_id = self.publisher._mint.next_id(self.world.wall_clock())
        kind = EventType("flight", "1.0", security_level=SecurityLevel.LOW)
        document = write_event(event_id, stream, kind, flight(1000))
        self.world.wait(self.publisher.publish_document(document, event_id))
        return document

    def ask(
        self, document: bytes, client: str = "at-b", login: Mapping[str, str] = ADMINISTRATOR
    ) -> dict[str, Any]:
        return self.explain("b", document, client, **login)


@pytest.fixture
def nodes() -> Iterator[TwoNodes]:
    nodes = TwoNodes()
    yield nodes
    nodes.world.close()


def stacks(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {each["node"]: each.get("stack") for each in answer["network"]["nodes"]}


def test_each_node_names_the_stack_that_carries_the_event(nodes: TwoNodes) -> None:
    nodes.begin()
    document = nodes.publish_now()
    read(nodes.world, *nodes.readers, seconds=1.0)
    answer = nodes.ask(document)
    assert verdicts(answer) == {"one/a": "origin", "one/b": "logged"}
    assert stacks(answer) == {"one/a": RADAR, "one/b": RADAR}
    assert f"/{PATTERN}:" in answer["network"]["place"]
    assert "stack" not in answer["network"]


def test_an_event_of_the_default_stack_has_no_further_field(nodes: TwoNodes) -> None:
    nodes.begin()
    document = nodes.publish_now("public")
    answer = nodes.ask(document)["network"]
    assert answer.keys() == {"known", "place", "here", "nodes", "silent", "partly"}
    for each in answer["nodes"]:
        assert each.keys() == {"node", "verdict", "reason", "subscriptions", "left_out"}
    unknown = nodes.ask(document.replace(b"1000<", b"1001<"))["network"]
    assert unknown["known"] is False and "stack" not in unknown


def test_an_event_on_its_way_has_the_mark_that_its_flow_has_reached(nodes: TwoNodes) -> None:
    nodes.begin()
    nodes.publish_now()
    read(nodes.world, *nodes.readers, seconds=1.0)
    mark = nodes.world["a"].event_log.own_end
    nodes.publish_now("public")
    nodes.transport.delay = 5.0
    document = nodes.publish_now()
    answer = nodes.ask(document)
    assert verdicts(answer) == {"one/a": "origin", "one/b": "missing"}
    assert stacks(answer)["one/b"] == {**RADAR, "reached": f"{mark[0]}:{mark[1]}"}
    assert subscription_verdicts(answer) == {"one/b": ["missing"]}


@pytest.mark.parametrize("administers", [True, False])
def test_a_stopped_stack_is_shown_with_its_reason_to_an_administrator(
    nodes: TwoNodes, administers: bool
) -> None:
    nodes.begin(plugins=failing((nodes.transport, None), "b", "announce"))
    document = nodes.publish_now()
    low = {"account": "low", "secret": "right", "asker": "low-1"}
    answer = (
        nodes.ask(document, login=ADMINISTRATOR)
        if administers
        else nodes.ask(document, "low-1", low)
    )
    reason = "InjectedError: announce" if administers else "stopped"
    assert stacks(answer)["one/a"] == RADAR
    assert stacks(answer)["one/b"]["error"] == reason


def test_a_node_without_the_stack_says_so(nodes: TwoNodes) -> None:
    nodes.begin(carrying="a")
    document = nodes.publish_now()
    read(nodes.world, *nodes.readers, seconds=3.0)
    answer = nodes.ask(document)
    assert verdicts(answer) == {"one/a": "origin", "one/b": "logged"}
    assert stacks(answer) == {"one/a": RADAR, "one/b": NONE}


def test_an_instance_of_the_default_transport_is_named(nodes: TwoNodes) -> None:
    nodes.begin(StackInstance("boats", use=DEFAULT_STACK))
    document = nodes.publish_now()
    read(nodes.world, *nodes.readers, seconds=0.3)
    answer = nodes.ask(document)
    boats = {"name": "boats", "use": DEFAULT_STACK, "error": ""}
    assert verdicts(answer) == {"one/a": "origin", "one/b": "logged"}
    assert stacks(answer) == {"one/a": boats, "one/b": boats}


def test_an_unpublished_event_has_the_stack_that_would_carry_it(nodes: TwoNodes) -> None:
    nodes.begin()
    document = nodes.publish_now().replace(b"1000<", b"1001<")
    answer = nodes.ask(document)["network"]
    assert answer["known"] is False and answer["nodes"] == []
    assert answer["stack"] == {"pattern": PATTERN, **RADAR}


def test_an_event_whose_order_is_not_decided_is_withheld(nodes: TwoNodes) -> None:
    transport = OrderingTransport(nodes.world)
    transport.loses = lambda _: True
    nodes.begin(StackInstance("radar", use="ordering"), plugins=(transport, None))
    document = nodes.publish_now()
    answer = nodes.ask(document, "at-a")
    assert verdicts(answer) == {"one/a": "withheld", "one/b": "missing"}
    assert subscription_verdicts(answer) == {"one/a": ["withheld"]}
    assert stacks(answer)["one/a"]["use"] == "ordering"
    read(nodes.world, *nodes.readers, seconds=10.0)
    assert [len(reader.events) for reader in nodes.readers] == [1, 1]
    answer = nodes.ask(document, "at-a")
    assert verdicts(answer) == {"one/a": "origin", "one/b": "logged"}
    assert subscription_verdicts(answer) == {"one/a": ["delivered"]}


def test_the_origin_finds_an_event_of_a_flow_by_its_place(
    nodes: TwoNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes.begin()
    document = nodes.publish_now()
    read(nodes.world, *nodes.readers, seconds=1.0)
    search = log_search.search_log

    async def search_receiver(log: EventLog, *question: Any) -> Any:
        if log is nodes.world["a"].event_log:
            return None, True
        return await search(log, *question)

    monkeypatch.setattr(node_trace, "search_log", search_receiver)
    assert verdicts(nodes.ask(document)) == {"one/a": "origin", "one/b": "logged"}
