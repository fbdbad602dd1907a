from __future__ import annotations

import hashlib

import attrs
from twisted.internet.task import Clock

from broker.cluster.address import Address
from broker.cluster.dtd_exchange import (
    ANSWER_TIMEOUT,
    OTHER_TEXT_TIMEOUT,
    SILENT_PERIOD,
    DtdContext,
    DtdExchange,
)
from broker.cluster.traffic.frame import MAX_HOPS
from broker.cluster.traffic.messages import DtdAnswer, DtdRequest, RoutedMessage
from broker.dtd.fetch_hint import FetchHint
from broker.dtd.reference import DtdReference
from broker.errors import UnknownType
from broker.wire.messages import NO_ERROR

HERE, ONE, TWO = (Address(("c",), name) for name in ("here", "one", "two"))
FLIGHT = DtdReference("flight", "1.0")
FIT = FetchHint(content_hash=hashlib.sha256(b"fit").hexdigest())


@attrs.define
class Asker:
    clock: Clock = attrs.field(factory=Clock)
    sent: list[RoutedMessage] = attrs.field(factory=list)
    exchange: DtdExchange = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.exchange = DtdExchange(self.clock)
        self.exchange.set_sender(self.sent.append)
        self.exchange.set_context(
            DtdContext(
                lambda: HERE, lambda _: None, lambda: (ONE, TWO), lambda _: (), lambda _: None
            )
        )

    def fetch(self, hint: FetchHint = FIT) -> list[object]:
        """The list receives the text or the error's text."""
        found: list[object] = []
        self.exchange.fetch(FLIGHT, hint).addCallbacks(
            found.append, lambda failure: found.append(str(failure.value))
        )
        return found

    def answer(self, source: Address, *texts: bytes) -> None:
        for text in texts or (b"",):
            error = NO_ERROR if texts else UnknownType("no DTD").to_wire()
            self.exchange.receive_message(
                DtdAnswer(HERE, source, MAX_HOPS, "flight", "1.0", error, text)
            )

    def take_asked(self) -> list[Address]:
        asked = [each.target for each in self.sent if isinstance(each, DtdRequest)]
        self.sent.clear()
        return asked


def test_nodes_are_asked_in_turn_until_one_has_the_text() -> None:
    asker = Asker()
    found = asker.fetch()
    asker.answer(TWO, b"fit")
    asker.answer(ONE)
    assert asker.take_asked() == [ONE, TWO]
    asker.answer(ONE, b"fit")
    assert found == [] and asker.exchange.dropped == {"unasked": 2}
    asker.answer(TWO, b"fit")
    assert found == [b"fit"] and not asker.clock.getDelayedCalls()


def test_a_node_may_send_the_fitting_text_after_another() -> None:
    asker = Asker()
    found = asker.fetch()
    asker.answer(ONE, b"other", b"third")
    asker.clock.advance(OTHER_TEXT_TIMEOUT - 0.1)
    asker.answer(ONE, b"fit")
    assert found == [b"fit"] and asker.exchange.dropped == {"wrong-hash": 2}
    found = asker.fetch()
    asker.answer(ONE, b"other")
    asker.clock.advance(OTHER_TEXT_TIMEOUT)
    asker.answer(TWO)
    assert found == ["c/one: its text does not have the announced hash; c/two: no DTD"]
    # It is not silent.
    asker.take_asked()
    asker.fetch()
    assert asker.take_asked() == [ONE]


def test_a_silent_node_is_asked_last_for_a_while() -> None:
    asker = Asker()
    found = asker.fetch()
    asker.clock.advance(ANSWER_TIMEOUT)
    asker.answer(TWO, b"fit")
    assert found == [b"fit"] and asker.take_asked() == [ONE, TWO]
    asker.fetch()
    asker.answer(TWO, b"fit")
    assert asker.take_asked() == [TWO]
    asker.clock.advance(SILENT_PERIOD)
    asker.fetch()
    assert asker.take_asked() == [ONE]
