"""All that an account receives is independent of the content of events that it may not read.

Two runs differ only in this content: number, origins, publishers, types, and sizes are equal. Then
all messages to the account's clients are equal, in order, but for measured times (X12).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import attrs
import msgspec
import pytest

from broker.client.client import Client
from broker.client.received import ALL, last
from broker.config import Settings
from broker.config.stacks import StackInstance
from broker.errors import BrokerError
from broker.event.envelope import EventType, SecurityLevel
from broker.event.writer import write_event
from broker.testing.determinism import deterministic
from broker.testing.flights import Interest, flight
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_reader import Reader
from broker.wire import messages
from broker.wire.messages import Answer, Progress
from plugins.dcp.options import DcpOptions
from plugins.rcm.options import RcmOptions
from tests.simulation.network.dcp_mesh import address_of as dcp_address_of
from tests.simulation.network.rcm_group import address_of
from tests.simulation.test_identities import ACCOUNTS

LOW, MED, HIGH = SecurityLevel
QUERIES = (
    "true()",
    *(f"//altitude = {altitude}" for altitude in (1000, 2000, 3000, 4000)),
    "//altitude > 1500",
    "starts-with(//id, 'F') and //altitude mod 2000 = 0",
    "count(//a) > 100",
)
#: They select events that the account may not read, and no others.
SELECTIVE = QUERIES[1:2]
SETTINGS = attrs.evolve(
    Settings(),
    accounts=ACCOUNTS,
    types=attrs.evolve(Settings().types, undescribed="accept"),
)
FIGURES = {"seen", "filtered", "denied", "gone", "elsewhere", "bytes", "seconds"}


#: Returns the stack of a node with a number.
StackOf: TypeAlias = Callable[[int], StackInstance]


def in_mesh(number: int, *, confirm: bool = False) -> StackInstance:
    """Return the stack of two roots, and of nodes below both."""
    roots = dcp_address_of(0), dcp_address_of(1)
    options = DcpOptions(udp=dcp_address_of(number), roots=roots, confirm=confirm)
    return StackInstance("mesh", "dcp", "dcp", "mspaces", options=options)


def in_group(number: int, *, order: str) -> StackInstance:
    sites = {each: address_of(f"n{n}") for n, each in enumerate("abc")}
    options = RcmOptions(sites=sites, order=order)
    return StackInstance("group", use="rcm", clearance=HIGH, options=options)


#: Nodes, and the stack between them.
NETWORKS: dict[str, tuple[Sequence[str], StackOf | None]] = {
    "one node": ("a", None),
    "two nodes": ("ab", None),
    "dcp": ("abc", in_mesh),
    "dcp that confirms": ("abc", partial(in_mesh, confirm=True)),
    "rcm hybrid": ("abc", partial(in_group, order="hybrid")),
    "rcm sequencer": ("abc", partial(in_group, order="sequencer")),
}


class Run:
    """The messages to the clients of an account, with one of two contents of other events."""

    def __init__(
        self,
        variant: int,
        *nodes: str,
        reveals: bool = False,
        stack: StackOf | None = None,
        queries: Sequence[str] = QUERIES,
    ) -> None:
        """The account is at the last node. With `reveals` it has the right to administer. `stack`
        returns the stack of a node with a number, which carries all streams. With other `queries`
        the account has these alone, and nobody else subscribes at its node."""
        self.received: dict[str, list[Any]] = {}
        self._variant, self._queries = variant, queries
        self.at = nodes[-1]
        self.carried = 0
        """Events that the stack has brought to the account's node."""
        accounts = tuple(
            attrs.evolve(each, administer=reveals or each.administer) for each in ACCOUNTS
        )
        self.world = NetworkWorld(1, jitter=0.0, settings=attrs.evolve(SETTINGS, accounts=accounts))
        add = partial(self.world.add, key_file=self.world.key_file(b"k" * 32))
        for number, node in enumerate(nodes):
            others = [] if number == 0 else [nodes[0]]
            add(node, "one", cleartext_clearance=HIGH, join=others, start=False)
            if stack is not None:
                self.world.set_stacks(node, {"asdi.>": stack(number)})
            self.world.start(node)
        self.world.run(6.0)
        self._publisher = self.world.client("publisher", nodes[0], account="all", secret="right")
        reader = self.world.client(
            "cleared", nodes[-1 if queries is QUERIES else 0], account="all", secret="right"
        )
        self.cleared = [
            Reader(self.world, reader, Interest("asdi.>", query, lambda *_: True))
            for query in ("//altitude = 2000", "count(//a) > 100")
        ]
        self.world.run(1.0)

    def join(self, name: str, incarnation: int = 1) -> Client:
        client = self.world.client(
            name, self.at, incarnation=incarnation, account="low", secret="right"
        )
        receive, kept = client._core.receive_message, self.received.setdefault(name, [])

        def record(data: bytes, now: float) -> Any:
            kept.append(data if data[:1] == bytes([messages.DELIVER]) else messages.decode(data))
            return receive(data, now)

        client._core.receive_message = record  # type: ignore[method-assign]
        self.world.run(0.5)
        return client

    def subscribe(self, client: Client, **how: Any) -> list[Reader]:
        durable = how.pop("durable", "")
        return [
            Reader(
                self.world,
                client,
                Interest("asdi.>", query, lambda *_: True),
                durable=f"{durable}{number}" if durable else "",
                **how,
            )
            for number, query in enumerate(self._queries)
        ]

    def publish(self, stream: str, level: SecurityLevel, payload: bytes, name: str) -> bytes:
        event_id = self._publisher._mint.next_id(self.world.wall_clock())
        kind = EventType(name, "1.0", security_level=level)
        document = write_event(event_id, stream, kind, payload)
        self.world.wait(self._publisher.publish_document(document, event_id))
        self.world.run(0.5)
        return document

    def publish_secrets(self) -> None:
        altitude = (1000, 2000)[self._variant]
        for level in (MED, HIGH):
            self.publish("asdi.a", level, flight(altitude), "flight")
            self.publish("asdi.a", level, flight(4000 - altitude), "flight")
        content = (b"<a/>" * 200, b"aaaa" * 200)[self._variant]
        self.publish("asdi.a", HIGH, b"<blob>" + content + b"</blob>", "blob")
        # Without the right to the stream, at its own level.
        self.publish("secret", LOW, flight(altitude), "flight")

    def ask(self, asker: Client, what: str, document: bytes = b"", /, **arguments: str) -> None:
        try:
            self.world.wait(asker.ask(what, document, **arguments))
        except BrokerError:
            pass  # It is recorded.
        self.world.run(5.0)

    def ask_everything(self, client: Client, document: bytes) -> None:
        for query in QUERIES[:3]:
            self.ask(client, "explain", document, query=query, streams="asdi.>")
        for name in ("low-live", "low-durable"):
            self.ask(client, "explain", document, client=name)
            self.ask(client, "durable-list", client=name)
            self.ask(client, "recover-explain", durable="d2")
        for number in range(len(QUERIES)):
            self.ask(client, "durable-show", client="low-durable", name=f"d{number}")
        for what in ("status", "recoveries", "recover-explain", "durable-positions", "dtd-list"):
            self.ask(client, what)
        for what in ("event-paths", "operate", "order-proof", "mesh-ticket", "nonsense"):
            self.ask(client, what, event="publisher/1/1@1")


def run(variant: int, *nodes: str, **how: Any) -> Run:
    with deterministic(1):
        return _run(Run(variant, *nodes, **how))


def _run(run: Run) -> Run:
    world = run.world
    with world:
        live, durable = run.join("low-live"), run.join("low-durable")
        run.subscribe(live)
        run.subscribe(durable, durable="d", start=ALL)
        world.run(1.0)
        run.publish("asdi.a", LOW, flight(1000), "flight")
        run.publish_secrets()
        document = run.publish("asdi.b", LOW, flight(2000), "flight")
        # These come by catch-up and recovery.
        world.wait(durable.close())
        run.publish_secrets()
        run.publish("public", LOW, flight(3000), "flight")
        run.publish("asdi.a", LOW, flight(4000), "flight")
        durable = run.join("low-durable", incarnation=2)
        run.subscribe(durable, durable="d")
        late = run.join("low-late")
        run.subscribe(late, start=ALL)
        run.subscribe(late, start=last(3))
        world.run(3.0)
        run.ask_everything(live, document)
        world.run(3.0)
        for reader in run.cleared:
            reader.read()
        run.carried = sum(each.received for each in run.world[run.at].transports or ())
    return run


def without_times(content: Any) -> Any:
    if isinstance(content, Answer):
        return without_times(msgspec.structs.asdict(content))
    if isinstance(content, dict):
        return {key: without_times(each) for key, each in content.items() if key != "measured"}
    if isinstance(content, list | tuple):
        return [without_times(each) for each in content]
    return content


def differences(one: Run, other: Run) -> list[tuple[Any, Any]]:
    assert one.received.keys() == other.received.keys()
    found = []
    for name, received in one.received.items():
        others = other.received[name]
        assert received and len(received) == len(others)
        pairs = zip(map(without_times, received), map(without_times, others), strict=True)
        found += [(here, there) for here, there in pairs if here != there]
    return found


def keys_of(content: Any) -> set[str]:
    if isinstance(content, dict):
        filled = {key: value for key, value in content.items() if value is not None}
        return set(filled).union(*map(keys_of, filled.values()))
    return set().union(*map(keys_of, content)) if isinstance(content, list) else set()


@pytest.mark.parametrize("network", NETWORKS)
def test_nothing_that_an_account_receives_depends_on_events_it_may_not_read(network: str) -> None:
    nodes, stack = NETWORKS[network]
    one, other = run(0, *nodes, stack=stack), run(1, *nodes, stack=stack)
    assert not differences(one, other)
    # The contents make a difference to a client that may read them.
    seen = [[len(reader.events) for reader in each.cleared] for each in (one, other)]
    assert seen[0] != seen[1]
    assert one.carried == other.carried
    assert one.carried > 5 or stack is None
    shown = set().union(*(keys_of(without_times(m)) for r in one.received.values() for m in r))
    assert {"delivered", "queued", "events", "before_log"} <= shown
    assert not shown & FIGURES, shown & FIGURES


def test_figures_of_operators_depend_on_all_events() -> None:
    assert differences(run(0, "a", "b", reveals=True), run(1, "a", "b", reveals=True))


@pytest.mark.parametrize("network", ["two nodes", "dcp", "rcm hybrid"])
def test_what_only_the_account_requests_of_other_nodes_changes_no_more_than_times(
    network: str,
) -> None:
    """Its position passes an event sooner if the event comes to its node."""
    nodes, stack = NETWORKS[network]
    one, other = (run(n, *nodes, stack=stack, queries=SELECTIVE) for n in range(2))
    assert positions_of(one) == positions_of(other)
    for each in (one, other):
        for name, received in each.received.items():
            each.received[name] = [m for m in received if not isinstance(m, Progress)]
    assert not differences(one, other)


def positions_of(run: Run) -> dict[tuple[str, int, str], tuple[int, int]]:
    """Return the last positions of each client's subscriptions, by flow."""
    return {
        (name, number, flow): (epoch, offset)
        for name, received in run.received.items()
        for message in received
        if isinstance(message, Progress)
        for number, position in message.positions
        for flow, epoch, offset in position
    }
