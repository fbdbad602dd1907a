"""Several peers of one driver, without layers above the links."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from broker.errors import Closed, Overloaded
from broker.transport.driver import IStackReceiver, StackDriver
from broker.transport.effects import Effect, ViewChanged
from broker.transport.message import Message, Outcome
from broker.transport.multicast import MulticastLayer
from broker.transport.socket import TCP_PROPERTIES
from broker.transport.stack import Stack
from broker.transport.view import LinkState, View
from tests.transport.recording import RecordingChannel, RecordingCore, RecordingLayer


@implementer(IStackReceiver)
class PeersReceiver:
    def __init__(self) -> None:
        self.log: list[tuple[object, ...]] = []
        self.reaction: Callable[[], None] = lambda: None

    def messages_received(self, peer: object, messages: Sequence[bytes]) -> None:
        self.log.append((peer, "messages", list(messages)))
        self.reaction()

    def view_changed(self, peer: object, view: View) -> None:
        self.log.append((peer, "view", view.state))

    def writable_changed(self, peer: object, writable: bool) -> None:
        self.log.append((peer, "writable", writable))


class PeersTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.cores = {name: RecordingCore(name.encode()) for name in "ab"}
        self.receiver = PeersReceiver()
        self.unexpected: list[Exception] = []
        self.driver = StackDriver([], self.clock, self.receiver, on_error=self.unexpected.append)
        self.channels = {name: RecordingChannel() for name in "ab"}
        for name, core in self.cores.items():
            stack = Stack("recorder", [RecordingLayer(core)], TCP_PROPERTIES)
            self.driver.join(name, stack)
            self.driver.attach(name, self.channels[name])
            core.log.clear()
        self.receiver.log.clear()

    def test_each_peer_has_cores_and_a_channel_of_its_own(self) -> None:
        self.driver.send(
            [Message(b"x", destinations=("a", "b")), Message(b"y", destinations=("b",))]
        )
        self.assertEqual(self.channels["a"].log, [("send", [b"ax"])])
        self.assertEqual(self.channels["b"].log, [("send", [b"bx"]), ("send", [b"by"])])
        self.channels["b"].deliver(b"z")
        self.assertEqual(self.receiver.log, [("b", "messages", [b"zb"])])
        self.assertEqual(self.cores["a"].log, ["submit"])

    def test_the_outcome_for_an_unknown_or_failed_peer_is_absent(self) -> None:
        def broken(messages: Sequence[bytes], now: float) -> list[Effect]:
            raise IndexError("a bug")

        self.cores["a"].submit = broken  # type: ignore[method-assign]
        for _ in range(2):
            message = Message(b"x", destinations=("a", "b", "c"))
            self.driver.send([message])
            self.assertEqual(
                message.outcomes,
                {"a": Outcome.ABSENT, "b": Outcome.SENT, "c": Outcome.ABSENT},
            )
        self.assertEqual([type(error) for error in self.unexpected], [IndexError])
        self.assertEqual(self.channels["a"].log, [("abort", Closed)])
        self.assertEqual(self.receiver.log, [("a", "view", LinkState.DISCONNECTED)])

    def test_a_link_that_takes_no_more_is_full(self) -> None:
        def refuse(messages: Sequence[bytes], now: float) -> list[Effect]:
            raise Overloaded("full")

        self.cores["a"].submit = refuse  # type: ignore[method-assign]
        message = Message(b"x", destinations=("a", "b"))
        self.driver.send([message])
        self.assertEqual(message.outcomes, {"a": Outcome.FULL, "b": Outcome.SENT})

    def test_each_peer_has_a_timer_of_its_own(self) -> None:
        self.cores["a"].deadline, self.cores["b"].deadline = 3.0, 2.0
        for channel in self.channels.values():
            channel.deliver(b"x")
        self.clock.advance(2.0)
        self.assertEqual(self.cores["a"].log, ["receive"])
        self.assertEqual(self.cores["b"].log, ["receive", "timeout 2"])
        self.driver.remove("a", Closed("removed"))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_nothing_is_reported_of_a_removed_peer(self) -> None:
        link = self.driver.links["a"]
        self.cores["a"].extra = [ViewChanged(View(LinkState.SUSPECTED))]
        self.receiver.reaction = lambda: self.driver.remove("a", Closed("removed"))
        self.channels["a"].deliver(b"x")
        self.channels["a"].deliver(b"y")
        self.channels["a"].lose()
        self.assertEqual(self.receiver.log, [("a", "messages", [b"xa"])])
        self.assertEqual(self.channels["a"].log, [("abort", Closed)])
        self.assertEqual(self.unexpected, [])
        self.assertFalse(link.is_attached)
        self.driver.consumed("a", 1)
        self.assertEqual(self.cores["a"].log, ["receive"])
        self.assertRaises(KeyError, self.driver.attach, "a", RecordingChannel())

    def test_credit_is_of_one_peer(self) -> None:
        self.driver.consumed("b", 2)
        self.assertEqual((self.cores["a"].log, self.cores["b"].log), ([], ["consumed 2"]))


def test_timers_of_one_time_fire_in_the_order_in_which_links_were_used() -> None:
    clock, due = Clock(), list[str]()

    class Due(RecordingCore):
        def handle_timeout(self, now: float) -> list[Effect]:
            due.append(self.mark.decode())
            return super().handle_timeout(now)

    driver = StackDriver([MulticastLayer()], clock, PeersReceiver())
    names = [f"peer {number}" for number in range(20)]
    for name in names:
        core = Due(name.encode())
        layers = [RecordingLayer(core), MulticastLayer()]
        driver.join(name, Stack("test", layers, TCP_PROPERTIES))
        driver.attach(name, RecordingChannel())
        core.deadline = 5.0
    driver.send([Message(b"x", destinations=tuple(names))])
    clock.advance(5.0)
    assert due == names
