"""A transport that records its calls, and services of a node, for tests of transports."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.plugin import IPlugin
from zope.interface import implementer

from broker.config import Settings, StreamSettings
from broker.config.stacks import StackInstance
from broker.errors import ConfigurationError
from broker.event.place import Mark
from broker.event.site_notice import SiteNotice
from broker.event.stream import StreamPattern
from broker.matching.covering.stream_interest import StreamInterest
from broker.matching.query.query import Query, parse_query
from broker.order_certificates.signing_key import PinnedKeys, SigningKey
from broker.queue_memory import QueueMemory
from broker.streams.contract import (
    CarriedEvent,
    CarriedInterest,
    ClusterFactory,
    FlowBatch,
    Guarantee,
    IAnnotatingTransport,
    ILinkReceiver,
    ILinks,
    IStreamTransport,
    ITransportContext,
    ITransportPlugin,
)
from broker.streams.group_contract import IGroup, OnGroupDatagrams
from broker.streams.interest_transport import IInterestTransport, Marks
from broker.streams.link_key import LinkKey
from broker.streams.ticket import TicketPolicy
from broker.streams.transports import StreamTransports
from broker.transport.stacks import GroupAddress


@attrs.frozen
class Options:
    fails: str = ""


@implementer(IStreamTransport)
class Recorder:
    """Records its calls; the call named by its option fails."""

    def __init__(self, context: ITransportContext | None, fails: str = "") -> None:
        self.context = context
        self.calls: list[tuple[Any, ...]] = []
        self.batches: list[FlowBatch] = []
        self.links: list[list[frozenset[Hashable]]] = []
        self.fails = fails

    def _record(self, *call: Any) -> None:
        self.calls.append(call)
        if call[0] == self.fails:
            raise RuntimeError("no more")

    def listen(self) -> None:
        if self.fails == "port":
            raise ConfigurationError("the port is in use")
        self._record("listen")

    def start(self) -> None:
        self._record("start")

    def stop(self) -> Deferred[None]:
        self._record("stop")
        return succeed(None)

    def announce(self, key: str, interest: CarriedInterest) -> None:
        self._record("announce", key, interest.pattern.text, interest.query)

    def withdraw(self, key: str) -> None:
        self._record("withdraw", key)

    def publish(self, batch: FlowBatch) -> None:
        self.batches.append(batch)
        if self.context is not None:
            self.links.append(list(self.context.match(batch)))
        self._record("publish", batch.flow)

    def recovered(self, batch: FlowBatch) -> None:
        self._record("recovered", batch.flow)

    def snapshot(self) -> Mapping[str, object]:
        self._record("snapshot")
        return {"peers": 3}


@implementer(IAnnotatingTransport)
class AnnotatingRecorder(Recorder):
    size = left_out = 0

    def annotate(self, events: Sequence[CarriedEvent]) -> Sequence[bytes]:
        self._record("annotate", *(event.mark for event in events))
        return [bytes(self.size or event.mark[1]) for event in events][self.left_out :]


@implementer(IInterestTransport)
class AnnouncingRecorder(Recorder):
    """Its nodes learn of new interest by it."""

    def announce(  # type: ignore[override]
        self, key: str, interest: CarriedInterest
    ) -> Deferred[Marks]:
        super().announce(key, interest)
        return succeed({})


@implementer(IPlugin, ITransportPlugin)
class Plugin:
    version: ClassVar[int] = 1
    summary: ClassVar[str] = "for these tests"
    options: ClassVar[type] = Options
    guarantees: ClassVar[frozenset[Guarantee]] = frozenset({Guarantee.REDUNDANCY})
    links: ClassVar[str] = ""

    def __init__(self, name: str) -> None:
        self.name = name
        self.created: list[Recorder] = []
        self.kind = Recorder

    def create(self, context: ITransportContext) -> IStreamTransport:
        assert isinstance(context.options, Options)
        if context.options.fails == "create":
            raise RuntimeError("can not be built")
        if context.options.fails == "options":
            raise ConfigurationError("its options do not fit")
        self.created.append(self.kind(context, context.options.fails))
        return self.created[-1]


class Services:
    node, origin = "n1", "0123"

    def __init__(self) -> None:
        self.clock, self.random = Clock(), Random(1)
        self.wall_clock: Callable[[], int] = lambda: 0
        self.folder = Path("stacks")
        self.cluster: ClusterFactory = Recorder
        self.link_interest = self
        self.installed: dict[tuple[LinkKey, str], StreamInterest] = {}
        self.received: list[FlowBatch] = []
        self.matched = 0
        self.notices: list[tuple[SiteNotice, list[str]]] = []
        self.fed: list[str] = []
        self.announced_later: list[str] = []
        self.agrees = True
        self.announced: dict[Hashable, Callable[[Mapping[str, Mark]], object]] = {}
        self.own_end = (1, 6)
        self.ticket_key, self.ticket_policy = b"", TicketPolicy()
        self.signing_key = SigningKey.generate()
        self.public_keys: PinnedKeys = {}
        self.queue_memory = QueueMemory()

    def install(self, destination: LinkKey, id: str, interest: StreamInterest) -> bool:
        self.installed[destination, id] = interest
        return True

    def remove(self, destination: LinkKey, id: str) -> None:
        self.installed.pop((destination, id), None)

    def receive(self, batch: FlowBatch) -> bool:
        self.received.append(batch)
        return batch.after < batch.upto

    def deliver(self, batch: FlowBatch) -> bool:
        return self.receive(batch)

    def read_log_end(self, patterns: Sequence[str]) -> Deferred[Sequence[CarriedEvent]]:
        return succeed(())

    def find_group(self, pattern: StreamPattern) -> Sequence[str]:
        return ()

    def carriage_version(self) -> int:
        return 0

    def coverage_of(self, flow: str) -> Mark:
        return (0, 0)

    def may_have_log(self, node: str, origin: str) -> bool:
        return True

    def must_prove_log(self, node: str, origin: str) -> bool:
        return False

    def release_earlier(self, patterns: Sequence[str]) -> Deferred[None]:
        return succeed(None)

    def release_ordered(self, patterns: Sequence[str]) -> None:
        """Do nothing: no event waits."""

    def request_feed(self, patterns: Sequence[str]) -> None:
        self.fed += patterns

    def announce_interest(
        self,
        key: Hashable,
        interest: StreamInterest,
        on_active: Callable[[Mapping[str, Mark]], object],
    ) -> None:
        self.announced[key] = on_active

    def withdraw_interest(self, key: Hashable) -> None:
        self.announced.pop(key)

    def announce_all(self, patterns: Sequence[StreamPattern]) -> None:
        self.announced_later += [pattern.text for pattern in patterns]

    def is_agreed(self, patterns: Sequence[str]) -> bool:
        return self.agrees

    def match(self, batch: FlowBatch) -> Sequence[frozenset[LinkKey]]:
        self.matched += 1
        return [frozenset(destination for destination, _ in self.installed)] * len(batch.events)

    def open_client_links(
        self, stack: StackInstance, listen: str, receiver: ILinkReceiver
    ) -> ILinks:
        raise NotImplementedError

    def has_interest(self, instance: str, batch: FlowBatch) -> Sequence[bool]:
        raise NotImplementedError

    def open_links(self, stack: StackInstance, listen: str, receiver: ILinkReceiver) -> ILinks:
        raise ConfigurationError(f"{listen} can not be opened")

    def open_group(
        self, _: object, address: GroupAddress, on_datagrams: OnGroupDatagrams
    ) -> IGroup:
        raise ConfigurationError(f"{address.host} can not be opened")

    def find_addresses(self, name: str, port: int) -> Deferred[Sequence[tuple[str, int]]]:
        return succeed(())

    def parse_query(self, text: str, namespaces: Mapping[str, str]) -> Query:
        return parse_query(text, namespaces)

    def pass_notice(
        self,
        notice: SiteNotice,
        patterns: Sequence[StreamPattern],
        on_passed: Callable[[], object],
    ) -> None:
        self.notices.append((notice, [pattern.text for pattern in patterns]))
        on_passed()


EVENT = CarriedEvent((1, 7), b"record", b"<event/>", 0)
BATCH = FlowBatch("0123/asdi.>", "alps.n1", (1, 6), (1, 7), [EVENT])
BOATS = attrs.evolve(BATCH, flow="0123/boats.*")
NO_LINKS: list[frozenset[LinkKey]] = [frozenset()]
EVERYTHING = parse_query("true()")


def make(
    services: Services,
    plugins: Mapping[str, Plugin],
    radar: str = "",
    *,
    feed: str = "",
    mspaces: str = "",
) -> StreamTransports:
    settings = Settings(
        streams=(
            StreamSettings(StreamPattern.parse("asdi.>"), stack="radar"),
            StreamSettings(StreamPattern.parse("boats.*"), stack="ferry"),
        ),
        stacks=(
            StackInstance("radar", feed=feed, options=Options(radar)),
            StackInstance("mspaces", options=Options(mspaces)),
        ),
    )
    return StreamTransports(settings, services, lambda stack: (plugins[stack.use], None))
