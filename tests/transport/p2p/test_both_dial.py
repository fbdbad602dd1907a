"""Two nodes that dial each other, often at once, with cuts and restarts (T12, T13).

Of two connections both ends keep the one dialled by the node with the smaller name, in any order of
arrival, and p2p continues on either.
"""

from __future__ import annotations

import pytest

from broker.errors import Closed
from broker.transport.socket import ISocketChannel
from tests.seeds import seeds
from tests.transport.p2p.schedule import End, Run

CHUNKS = 10
SEEDS = 500
NAMES = ("a", "b")


def keeps(own: str, peer: str, initiated_by_us: bool) -> bool:
    return initiated_by_us is (own < peer)


class Node(End):
    kept = False  # whether the present connection is the one to keep
    attachments = 0
    refused_connections = 0

    @property
    def name(self) -> str:
        return NAMES[self.number]

    @property
    def peer(self) -> str:
        return NAMES[1 - self.number]

    def listen(self) -> None:
        self.run.network.listen(self.name, lambda channel: self.take(channel, ours=False))

    def connect_soon(self) -> None:
        # Often at the same time as the other one.
        self.run.clock.callLater(self.run.random.choice((0.1, 0.1, 0.2)), self.connect)

    def connect(self) -> None:
        if self.run.stopped or self.driver.is_attached or self.connecting:
            return
        self.connecting = True
        self.run.network.connect(self.peer).addCallbacks(self._connected, self._refused)

    def _connected(self, channel: ISocketChannel) -> None:
        self.connecting = False
        self.take(channel, ours=True)

    def take(self, channel: ISocketChannel, ours: bool) -> None:
        """Use a new connection, unless a better one is in use."""
        better = keeps(self.name, self.peer, ours)
        if self.driver.is_attached and self.kept and not better:
            self.refused_connections += 1
            channel.abort(Closed("the other connection is kept"))
            return
        self.kept = better
        self.attachments += 1
        self.driver.attach(channel)
        if self.run.stopped:
            self.driver.close()


class BothDial(Run):
    addresses = NAMES
    #: Faults that break a connection at random while they last.
    breaking = (1, 3, 4, 8)

    def __init__(self, seed: int) -> None:
        super().__init__(seed, Node)

    @property
    def connections(self) -> int:
        return sum(self.network.connections(name) for name in NAMES)

    @property
    def attachments(self) -> int:
        return sum(end.attachments for end in self.ends if isinstance(end, Node))

    def settled(self) -> None:
        """From here on there is one connection, and it stays."""
        if self.kind in self.breaking:
            return
        self.advance(10.0)
        before = self.attachments
        self.advance(60.0)
        assert self.attachments == before, "the connection flaps"
        assert self.connections == 1
        assert all(end.driver.is_attached for end in self.ends)


@pytest.mark.parametrize("chunk", seeds(2, CHUNKS))
def test_both_dial_and_every_message_arrives_once_and_in_order(chunk: int) -> None:
    size = SEEDS // CHUNKS
    for seed in range(chunk * size, (chunk + 1) * size):
        try:
            BothDial(seed).play()
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_connections_made_at_once_meet_and_both_ends_keep_the_same() -> None:
    quiet = [run for run in map(BothDial, range(200)) if run.kind == 0]
    assert len(quiet) > 10
    replaced = refused = 0
    for run in quiet:
        for end in run.ends:
            end.connect()
        run.advance(5.0)
        assert run.network.connections("b") == 1, "the connection that a made"
        assert run.connections == 1
        for end in run.ends:
            assert isinstance(end, Node)
            assert end.kept
            assert end.attachments + end.refused_connections == 2
            replaced += end.attachments - 1
            refused += end.refused_connections
    assert replaced, "in some schedules b's connection is there first"
    assert refused, "in some it is the second"
