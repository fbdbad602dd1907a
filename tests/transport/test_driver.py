from __future__ import annotations

from collections.abc import Sequence

import pytest
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from broker.errors import Closed, Overloaded, PeerSilent, ProtocolError, StackError
from broker.transport.channel_binding import CLOSE_TIMEOUT
from broker.transport.driver import StackDriver
from broker.transport.effects import (
    DeliverUp,
    Effect,
    Failed,
    SendDown,
    ViewChanged,
    WritableChanged,
)
from broker.transport.faults import ShuffleLayer
from broker.transport.layer import Property
from broker.transport.view import LinkState, View
from tests.transport.recording import (
    FifoLayer,
    RecordingChannel,
    RecordingCore,
    RecordingLayer,
    RecordingReceiver,
)


class DriverTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.low, self.high = RecordingCore(b"1"), RecordingCore(b"2")
        self.receiver = RecordingReceiver()
        self.channel = RecordingChannel()
        self.unexpected: list[Exception] = []
        self.stack = StackDriver(
            [RecordingLayer(self.low), RecordingLayer(self.high)],
            self.clock,
            self.receiver,
            on_error=self.unexpected.append,
        )
        self.driver = self.stack.join("peer")

    def attach(self) -> None:
        self.driver.attach(self.channel)
        self.receiver.log.clear()
        self.channel.log.clear()
        for core in (self.low, self.high):
            core.log.clear()

    def test_packets_pass_the_layers_from_the_bottom_to_the_top(self) -> None:
        self.attach()
        self.channel.deliver(b"a", b"b")
        self.assertEqual(self.receiver.log, [("messages", [b"a12", b"b12"])])

    def test_messages_pass_the_layers_from_the_top_to_the_bottom_in_one_write(self) -> None:
        self.attach()
        self.driver.send([b"a", b"b"])
        self.assertEqual(self.channel.log, [("send", [b"12a", b"12b"])])

    def test_sending_nothing_does_nothing(self) -> None:
        self.attach()
        self.driver.send([])
        self.driver.consumed(0)
        self.assertEqual((self.channel.log, self.high.log), ([], []))

    def test_a_stack_without_layers_is_the_channel_itself(self) -> None:
        driver = StackDriver([], self.clock, self.receiver).join("peer")
        driver.attach(self.channel)
        driver.send([b"a"])
        driver.consumed(1)
        self.channel.deliver(b"b")
        self.assertEqual(self.channel.log, [("send", [b"a"])])
        self.assertEqual(self.receiver.log[-1], ("messages", [b"b"]))

    def test_credit_goes_down_and_a_wrong_count_loses_no_message(self) -> None:
        self.attach()
        self.driver.consumed(3)
        self.assertEqual((self.high.log, self.low.log), (["consumed 3"], ["consumed 3"]))
        self.assertRaises(ValueError, self.driver.send, [b"a"], 100)
        self.driver.send([b"b"], 1)
        self.assertEqual(self.channel.log, [("send", [b"12a"]), ("send", [b"12b"])])

    def test_a_receiver_that_calls_back_never_reenters_a_core_and_keeps_the_order(self) -> None:
        self.attach()

        def react() -> None:
            if len(self.receiver.log) == 1:
                self.driver.send([b"x"])
                self.driver.consumed(1)
                self.driver.send([b"y"])
                self.channel.deliver(b"again")

        self.receiver.reaction = react
        self.low.extra = [SendDown([b"ack"])]
        self.channel.deliver(b"a")
        # The effects of the first packet come first, then the user's inputs in order.
        self.assertEqual(
            self.channel.log, [("send", [b"ack"]), ("send", [b"12x"]), ("send", [b"12y"])]
        )
        self.assertEqual(self.receiver.log, [("messages", [b"a12"]), ("messages", [b"again12"])])
        self.assertEqual(self.high.log, ["receive", "submit", "consumed 1", "submit", "receive"])
        self.assertEqual(self.unexpected, [])

    def test_a_receiver_that_closes_in_a_callback_gets_nothing_more(self) -> None:
        self.attach()
        self.low.extra = [DeliverUp([b"second"])]
        self.receiver.reaction = self.driver.close
        self.channel.deliver(b"a")
        self.channel.deliver(b"late")
        self.assertFalse(self.driver.is_attached)
        self.driver.send([b"late"])
        self.channel.lose()
        # Both batches of the running turn are delivered before the close.
        self.assertEqual(
            self.receiver.log,
            [
                ("messages", [b"a12"]),
                ("messages", [b"second2"]),
                ("view", LinkState.DISCONNECTED, type(None)),
            ],
        )
        self.assertEqual(self.channel.log, [("close",)])

    def test_an_overloaded_top_layer_raises_to_the_sender(self) -> None:
        self.attach()

        def refuse(messages: Sequence[bytes], now: float) -> list[Effect]:
            raise Overloaded("full")

        self.high.submit = refuse  # type: ignore[method-assign]
        with pytest.raises(Overloaded):
            self.driver.send([b"a"])
        self.assertTrue(self.driver.is_attached)

    def test_the_stack_sees_attaching_and_detaching(self) -> None:
        self.driver.attach(self.channel)
        self.assertTrue(self.driver.is_attached)
        error = ProtocolError("x")
        self.channel.lose(error)
        self.assertFalse(self.driver.is_attached)
        self.assertEqual(
            self.receiver.log,
            [
                ("view", LinkState.CONNECTED, type(None)),
                ("view", LinkState.DISCONNECTED, ProtocolError),
            ],
        )
        self.assertEqual(self.low.log, ["connected", "disconnected"])

    def test_packets_without_a_channel_are_counted(self) -> None:
        self.driver.send([b"a", b"b"])
        self.assertEqual(self.driver.dropped, 2)

    def test_another_channel_takes_the_place_of_the_first(self) -> None:
        self.attach()
        old, new = self.channel, RecordingChannel()
        self.driver.attach(new)
        self.assertEqual(old.log, [("abort", Closed)])
        self.assertEqual(self.low.log, ["disconnected", "connected"])
        old.deliver(b"late")
        old.lose()
        self.assertTrue(self.driver.is_attached)
        self.assertEqual([entry[0] for entry in self.receiver.log], ["view", "view"])
        self.driver.send([b"a"])
        self.assertEqual(new.log, [("send", [b"12a"])])

    def test_nothing_of_the_old_connection_leaks_into_the_new_one(self) -> None:
        self.attach()
        new = RecordingChannel()
        self.receiver.reaction = lambda: None

        def react() -> None:
            self.receiver.reaction = lambda: None
            self.driver.attach(new)
            self.driver.send([b"old"])

        self.receiver.reaction = react
        self.channel.deliver(b"a")
        self.assertEqual(self.channel.log, [("send", [b"12old"]), ("abort", Closed)])
        self.assertEqual(new.log, [])

    def test_effects_of_the_end_of_a_connection_do_not_reach_the_next(self) -> None:
        self.attach()
        new = RecordingChannel()
        self.high.extra = [SendDown([b"farewell"])]
        self.driver.attach(new)
        self.assertEqual(new.log, [])
        self.assertEqual(self.driver.dropped, 1)

    def test_a_channel_that_is_lost_already_is_noticed(self) -> None:
        class Lost(RecordingChannel):
            def __setattr__(self, name: str, value: object) -> None:
                super().__setattr__(name, value)
                if name == "receiver" and value is not None:
                    self.lose()

        self.driver.attach(Lost())
        self.assertFalse(self.driver.is_attached)
        self.assertEqual(self.low.log, ["connected", "disconnected"])

    def test_a_stack_without_a_receiver_gets_no_channel(self) -> None:
        self.stack.receiver = None
        with pytest.raises(StackError):
            self.driver.attach(self.channel)

    def test_layers_that_do_not_fit_are_refused(self) -> None:
        layers = [ShuffleLayer(seed=1, rate=1.0), FifoLayer(self.low)]
        with pytest.raises(StackError):
            StackDriver(layers, self.clock)

    def test_a_failure_of_a_core_aborts_the_connection_with_its_error(self) -> None:
        self.attach()
        self.low.extra = [Failed(ProtocolError("x"))]
        self.channel.deliver(b"a")
        self.assertEqual(self.channel.log, [("abort", ProtocolError)])
        self.assertEqual(
            self.receiver.log,
            [("messages", [b"a12"]), ("view", LinkState.DISCONNECTED, ProtocolError)],
        )
        self.assertIsNone(self.driver.failure)
        self.driver.attach(RecordingChannel())
        self.assertTrue(self.driver.is_attached)

    def test_the_user_can_abort(self) -> None:
        self.attach()
        self.driver.abort(PeerSilent("x"))
        self.driver.abort(PeerSilent("x"))
        self.assertEqual(self.channel.log, [("abort", PeerSilent)])
        self.assertEqual(self.receiver.log, [("view", LinkState.DISCONNECTED, PeerSilent)])

    def test_a_new_channel_does_not_keep_an_old_one_from_flushing(self) -> None:
        self.attach()
        self.driver.close()
        new = RecordingChannel()
        self.driver.attach(new)
        self.assertEqual(self.channel.log, [("close",)])
        self.assertEqual(self.low.log, ["disconnected", "connected"])
        self.channel.lose()
        self.assertTrue(self.driver.is_attached)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_close_that_flushes_can_still_be_aborted(self) -> None:
        self.attach()
        self.driver.close()
        self.driver.close()
        self.driver.abort(PeerSilent("x"))
        self.assertEqual(self.channel.log, [("close",), ("abort", PeerSilent)])
        self.assertEqual(self.receiver.log, [("view", LinkState.DISCONNECTED, PeerSilent)])
        self.channel.lose(PeerSilent("x"))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_channel_that_does_not_flush_is_aborted_in_the_end(self) -> None:
        self.attach()
        self.driver.close()
        self.clock.advance(CLOSE_TIMEOUT)
        self.assertEqual(self.channel.log, [("close",), ("abort", PeerSilent)])
        self.channel.lose(PeerSilent("x"))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_channel_that_has_flushed_leaves_no_timer(self) -> None:
        self.attach()
        self.driver.close()
        self.channel.lose()
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.receiver.log, [("view", LinkState.DISCONNECTED, type(None))])

    def test_a_receiver_that_raises_ends_the_stack_and_nothing_else(self) -> None:
        self.attach()
        self.low.extra = [SendDown([b"never"]), ViewChanged(View(LinkState.SUSPECTED))]
        self.low.deadline = 5.0

        def react() -> None:
            self.receiver.reaction = lambda: None
            raise KeyError("a bug")

        self.receiver.reaction = react
        self.channel.deliver(b"a")
        self.channel.deliver(b"b")
        self.assertEqual([type(error) for error in self.unexpected], [KeyError])
        self.assertEqual(
            self.receiver.log,
            [("messages", [b"a12"]), ("view", LinkState.DISCONNECTED, Closed)],
        )
        self.assertIn(("abort", Closed), self.channel.log)
        self.assertIsInstance(self.driver.failure, Closed)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        for use in (
            lambda: self.driver.send([b"x"]),
            lambda: self.driver.attach(RecordingChannel()),
        ):
            with pytest.raises(Closed, match="a bug"):
                use()

    def test_a_receiver_that_always_raises_is_reported_each_time(self) -> None:
        def react() -> None:
            raise KeyError("a bug")

        self.receiver.reaction = react
        self.driver.attach(self.channel)
        self.assertEqual([type(error) for error in self.unexpected], [KeyError, KeyError])

    def test_a_core_that_raises_ends_the_stack_and_the_receiver_sees_it(self) -> None:
        self.attach()

        def broken(packets: Sequence[bytes], now: float) -> list[Effect]:
            raise IndexError("a bug")

        self.high.receive = broken  # type: ignore[method-assign]
        self.channel.deliver(b"a")
        self.assertEqual([type(error) for error in self.unexpected], [IndexError])
        self.assertEqual(self.receiver.log, [("view", LinkState.DISCONNECTED, Closed)])
        self.assertEqual(self.channel.log, [("abort", Closed)])

    def test_a_channel_that_raises_ends_the_stack(self) -> None:
        self.attach()

        def broken(packets: Sequence[bytes]) -> None:
            raise ValueError("an empty packet can not be sent")

        self.channel.send = broken  # type: ignore[method-assign]
        self.driver.send([b"a"])
        self.assertEqual([type(error) for error in self.unexpected], [ValueError])
        self.assertFalse(self.driver.is_attached)

    def test_unexpected_errors_are_logged_by_default(self) -> None:
        driver = StackDriver([], self.clock, self.receiver).join("peer")

        def react() -> None:
            self.receiver.reaction = lambda: None
            raise KeyError("a bug")

        self.receiver.reaction = react
        driver.attach(self.channel)
        self.assertEqual(len(self.flushLoggedErrors(KeyError)), 1)

    def test_each_core_is_called_when_its_deadline_has_come(self) -> None:
        self.low.deadline, self.high.deadline = 3.0, 2.0
        self.attach()
        self.assertEqual(len(self.clock.getDelayedCalls()), 1)
        self.clock.advance(2.0)
        self.assertEqual((self.low.log, self.high.log), ([], ["timeout 2"]))
        self.clock.advance(1.0)
        self.assertEqual((self.low.log, self.high.log), (["timeout 3"], ["timeout 2"]))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_later_deadline_is_met(self) -> None:
        self.low.deadline = 2.0
        self.attach()
        self.low.deadline = 10.0
        self.channel.deliver(b"a")
        self.clock.advance(2.0)
        self.assertEqual(self.low.log, ["receive"])
        self.clock.advance(8.0)
        self.assertEqual(self.low.log, ["receive", "timeout 10"])

    def test_a_change_is_reported_once(self) -> None:
        self.attach()
        for extra in ([WritableChanged(False)], [WritableChanged(False)], [WritableChanged(True)]):
            self.low.extra = list(extra)
            self.driver.send([b"a"])
        self.assertEqual(self.receiver.log, [("writable", False), ("writable", True)])

    def test_the_stack_is_writable_when_all_of_it_is(self) -> None:
        self.attach()
        assert self.channel.receiver is not None
        self.channel.receiver.writable_changed(False)
        self.low.extra = [WritableChanged(False)]
        self.channel.deliver(b"a")
        self.channel.receiver.writable_changed(True)
        self.assertFalse(self.driver.is_writable)
        self.low.extra = [WritableChanged(True)]
        self.channel.deliver(b"a")
        self.assertTrue(self.driver.is_writable)

    def test_a_full_socket_that_is_lost_does_not_block_the_next(self) -> None:
        self.attach()
        assert self.channel.receiver is not None
        self.channel.receiver.writable_changed(False)
        self.channel.lose()
        self.assertTrue(self.driver.is_writable)

    def test_a_layer_with_back_pressure_speaks_for_the_socket(self) -> None:
        layer = RecordingLayer(self.low, provides=frozenset({Property.BACKPRESSURE}))
        driver = StackDriver([layer], self.clock, self.receiver).join("peer")
        driver.attach(self.channel)
        assert self.channel.receiver is not None
        self.channel.receiver.writable_changed(False)
        self.assertTrue(driver.is_writable)
