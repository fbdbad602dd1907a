from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import attrs
import pytest
from twisted.internet.task import Clock

from broker.cluster.acceptor import MOST_LINK_HANDSHAKES_PER_HOST, Acceptor
from broker.cluster.admission import AdmissionContext, AdmissionRules
from broker.cluster.handshake_core import HANDSHAKE_TIMEOUT
from broker.cluster.handshakes import Handshakes
from broker.errors import BrokerError, Overloaded
from broker.transport.channel_binding import CLOSE_TIMEOUT
from broker.transport.socket import ISocketChannel
from tests.cluster.sample_nodes import a_node

OWN = a_node("a.c1/n1")


@attrs.define(eq=False)
class FakeChannel:
    """`close` waits for the peer, as a TLS channel does whose handshake has not ended."""

    peer_description: str
    receiver: Any = None
    max_frame: int = 0
    certified_name: str = ""
    is_closing: bool = False
    aborted: BrokerError | None = None

    def send(self, packets: Sequence[bytes]) -> None:
        """Ignored."""

    def close(self) -> None:
        self.is_closing = True

    def abort(self, error: BrokerError) -> None:
        self.aborted = error


class Port:
    def __init__(self) -> None:
        self.clock = Clock()
        context = AdmissionContext(OWN, {"n1": OWN}, {}, {}, ())
        self.acceptor: Acceptor[ISocketChannel] = Acceptor(
            AdmissionRules(2, {"tcp": 9}), lambda: context, MOST_LINK_HANDSHAKES_PER_HOST
        )
        self.handshakes = Handshakes("net", b"key" * 8, self.acceptor, self.clock, lambda: 0)

    def accept(self, host: str) -> FakeChannel:
        channel = FakeChannel(f"{host}:50000")
        self.handshakes.accept(
            *(cast(Any, channel), OWN, "tcp"), lambda hello, host: None, lambda *_: None
        )
        return channel


def test_silent_stranger_that_does_not_let_its_channel_close_is_aborted() -> None:
    port = Port()
    silent = port.accept("192.0.2.1")
    port.clock.advance(HANDSHAKE_TIMEOUT)
    assert silent.is_closing and silent.aborted is None
    assert port.acceptor.under_way == 0
    port.clock.advance(CLOSE_TIMEOUT)
    assert silent.aborted is not None
    assert not port.clock.getDelayedCalls()


@pytest.mark.parametrize("is_old", [False, True])
def test_full_address_loses_an_old_handshake_or_the_new_one(is_old: bool) -> None:
    port = Port()
    first, *_ = [port.accept("192.0.2.1") for _ in range(MOST_LINK_HANDSHAKES_PER_HOST)]
    if is_old:
        port.clock.advance(2.0)
    last = port.accept("192.0.2.1")
    assert (first.aborted is not None, last.is_closing) == (is_old, not is_old)
    assert port.handshakes.failures == {Overloaded.code: 1}
    assert port.acceptor.under_way == MOST_LINK_HANDSHAKES_PER_HOST
    port.handshakes.abort_all(Overloaded("stopped"))
    assert port.acceptor.under_way == 0
    assert not port.clock.getDelayedCalls()
