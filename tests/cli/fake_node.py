"""A fake node for the commands: no network is needed, and requests are recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs
from click.testing import CliRunner, Result

from broker.cli import main
from broker.client.received import Gap, Receipt, ReceivedEvent, TypeChanged
from broker.errors import BrokerError, from_wire
from broker.event.envelope import EventType, Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.place import Place, Position
from broker.event.site_notice import SiteNotice
from broker.event.writer import write_event
from broker.wire.messages import PROTOCOL_VERSIONS, Welcome


@attrs.frozen
class Published:
    stream: str
    payload: bytes | None
    event_type: EventType
    rest: dict[str, Any]


@attrs.define(eq=False)
class FakeNode:
    """Scripted answers and recorded requests of a node. `run` connects to it."""

    refuse: Callable[[Published], BrokerError | None] = lambda _: None
    """None accepts the publication."""
    unreachable: BrokerError | None = None
    """Of every connection."""
    silent: bool = False
    """True if receipts never come."""
    answers: dict[str, Any] = attrs.field(factory=dict)
    stored: list[ReceivedEvent | Gap | TypeChanged | SiteNotice] = attrs.field(factory=list)
    """Delivered by a subscription; then it blocks."""
    ends: bool = True
    """True if a replay ends after the last item."""
    bad_query: BrokerError | None = None
    warnings: tuple[str, ...] = ()
    client_id: str = "fake"
    version: int = PROTOCOL_VERSIONS[-1]
    on_publish: Callable[[FakeClient], None] = lambda _: None

    on_wait: Callable[[], None] = lambda: None
    """A subscription has delivered everything."""

    published: list[Published] = attrs.field(factory=list)
    connections: list[dict[str, Any]] = attrs.field(factory=list)
    subscriptions: list[dict[str, Any]] = attrs.field(factory=list)
    asked: list[tuple[str, dict[str, str]]] = attrs.field(factory=list)
    asked_about: list[bytes] = attrs.field(factory=list)
    processed: list[Any] = attrs.field(factory=list)
    closed: int = 0

    def __call__(
        self,
        *endpoints: str,
        client_id: str,
        account: str,
        secret: str,
        state: Path | None,
        allow_cleartext: bool = False,
    ) -> FakeClient:
        self.connections.append(
            {
                "endpoints": endpoints,
                "client_id": client_id,
                "account": account,
                "secret": secret,
                "state": state,
                "allow_cleartext": allow_cleartext,
            }
        )
        return FakeClient(self)


class FakeClient:
    def __init__(self, node: FakeNode) -> None:
        self._node = node
        self.client_id = node.client_id
        self.welcome = Welcome(node.version, "n", "o", 1 << 20, 1 << 20, "/n")
        self._receipts: list[asyncio.Future[Receipt]] = []
        self.on_state: Callable[[bool, BrokerError | None], None] | None = None
        self.on_trouble: Callable[[BrokerError | None], None] | None = None
        self.last_error: BrokerError | None = None
        self.connected = True
        self.most_outstanding = 0

    def when_connected(self, timeout: float) -> Awaitable[None]:
        return _settled(None, self._node.unreachable)

    def publish(
        self, stream: str, payload: bytes | None, event_type: EventType, **rest: Any
    ) -> Awaitable[Receipt]:
        published = Published(stream, payload, event_type, rest)
        number = len(self._node.published) + 1
        # The real client refuses an invalid event at once.
        write_event(EventId("fake", 0, number, 1), stream, event_type, payload)
        self._node.published.append(published)
        receipt: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self._receipts = [each for each in self._receipts if not each.done()] + [receipt]
        self.most_outstanding = max(self.most_outstanding, len(self._receipts))
        if not self._node.silent:
            error = self._node.refuse(published)
            asyncio.get_running_loop().call_soon(_settle, receipt, number, error)
        self._node.on_publish(self)
        return receipt

    def subscribe(self, query: str, streams: str, **rest: Any) -> Awaitable[FakeSubscription]:
        self._node.subscriptions.append({"query": query, "streams": streams, **rest})
        return _settled(
            FakeSubscription(self._node, rest["on_gap"], rest["on_change"], rest["on_notice"]),
            self._node.bad_query,
        )

    async def subscribe_in_mesh(self, query: str, streams: str, **rest: Any) -> FakeSubscription:
        subscription = await self.subscribe(query, streams, **rest)
        subscription.mesh = FakeMesh(events=len(self._node.stored))
        return subscription

    def replay(self, **rest: Any) -> FakeSubscription:
        self._node.subscriptions.append({"query": "true()", "streams": ">", **rest})
        return FakeSubscription(self._node, rest["on_gap"], ends=self._node.ends)

    def ask(self, what: str, document: bytes = b"", /, **arguments: str) -> Awaitable[Any]:
        self._node.asked.append((what, arguments))
        self._node.asked_about.append(document)
        answer = self._node.answers.get(what, []) if what == "recoveries" else None
        answer = self._node.answers[what] if answer is None else answer
        if callable(answer):
            answer = answer()
        failed = answer if isinstance(answer, BrokerError) else None
        return _settled(answer, failed)

    def close(self, timeout: float = 0.0) -> Awaitable[bool]:
        self._node.closed += 1
        for receipt in self._receipts:
            if not receipt.done():
                receipt.set_exception(from_wire(("closed", "the client is closed", 0, 0)))
        return _settled(True, None)


@attrs.frozen
class FakeMesh:
    events: int


class FakeSubscription:
    """Delivers the stored items, then blocks."""

    def __init__(
        self,
        node: FakeNode,
        on_gap: Callable[[Gap], None],
        on_change: Callable[[TypeChanged], None] = lambda _: None,
        on_notice: Callable[[SiteNotice], None] = lambda _: None,
        *,
        ends: bool = False,
    ) -> None:
        self._node = node
        self._items = list(node.stored)
        self._on_gap = on_gap
        self._on_change = on_change
        self._on_notice = on_notice
        self._ends = ends
        self.position = self.cut = Position()
        self.warnings = node.warnings
        self.mesh: FakeMesh | None = None

    def processed(self, event: ReceivedEvent) -> None:
        self.position = Position().advanced([event.place])
        self._node.processed.append(self.position)

    def unsubscribe(self) -> None:
        self._items.clear()

    def __aiter__(self) -> FakeSubscription:
        return self

    async def __anext__(self) -> ReceivedEvent:
        while self._items:
            item = self._items.pop(0)
            if isinstance(item, ReceivedEvent):
                return item
            if isinstance(item, Gap):
                self._on_gap(item)
            elif isinstance(item, TypeChanged):
                self._on_change(item)
            else:
                self._on_notice(item)
        self._node.on_wait()
        if self._ends:
            if self._node.bad_query is not None:
                raise self._node.bad_query
            raise StopAsyncIteration
        await asyncio.get_running_loop().create_future()
        raise AssertionError("nobody gives that a result")


def received(
    number: int, payload: bytes | None = b"<flight><id>x</id></flight>", stream: str = "flights"
) -> ReceivedEvent:
    event_id = EventId("zbw", 1_795_000_000_000 + number, number, 7)
    kind = EventType("flight", "1.0")
    return ReceivedEvent(
        place=Place("origin", 1, number),
        header=Header(event_id, stream, "flight", "1.0", SecurityLevel.MED, Liveness.LIVE),
        liveness=Liveness.RECOVERY,
        document=write_event(event_id, stream, kind, payload),
    )


def gap(first: int, last: int, reason: str = "retention") -> Gap:
    return Gap(Place("origin", 1, first), Place("origin", 1, last), last - first + 1, reason)


def change() -> TypeChanged:
    """Flights lost their altitude."""
    return TypeChanged(
        type="flight",
        old="1.0",
        new="2.0",
        effect="can-not-match-any-more",
        reason="the DTD flight 2.0 has no element 'alt'",
        paths=("/flight/alt",),
        came=(),
        went=("/flight/alt", "/flight/alt/text()"),
        changed=(),
        left_out=2,
    )


def run(node: FakeNode, *arguments: str, stdin: bytes | str | None = None, **env: str) -> Result:
    """Run `xmlbroker ARGUMENTS`."""
    clean = {"XMLBROKER_NODE": None, "XMLBROKER_ACCOUNT": None, "XMLBROKER_SECRET": None}
    return CliRunner(env={**clean, **env}).invoke(main, list(arguments), input=stdin, obj=node)


def _settled(value: Any, error: BrokerError | None) -> asyncio.Future[Any]:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)
    return future


def _settle(receipt: asyncio.Future[Receipt], number: int, error: BrokerError | None) -> None:
    if receipt.done():
        return
    if error is None:
        event_id = EventId("fake", 0, number, 1)
        receipt.set_result(Receipt(event_id, Place("origin", 1, number)))
    else:
        receipt.set_exception(error)
