"""Wrong packets of a site: each is a typed error or ignored, and no other site suffers for long."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest

from broker.errors import ProtocolError
from broker.transport.effects import Failed
from broker.transport.order import (
    VARIANTS,
    Message,
    MessageId,
    OrderEffect,
    Send,
    Stamp,
    Suspect,
)
from broker.transport.order.effects import Packet
from broker.transport.order.packet import Clock
from broker.transport.order.sequencer.packet import (
    Answer,
    Begin,
    Epoch,
    Follow,
    Header,
    Known,
    Left,
    Numbers,
    Raised,
    Refusal,
    Request,
    Takeover,
)
from tests.seeds import seeds
from tests.transport.order.group import Group

SITES = "abc"


class AttackedGroup(Group):
    """One of its sites has no core, and sends what a test makes.

    Suspected sites, and those of wrong packets, are disconnected and connected again.
    """

    def __init__(self, variant: str, hostile: str, random: Random) -> None:
        self.hostile = hostile
        self.honest = list(SITES)
        self.is_attacked = True
        super().__init__(variant, SITES)
        self.honest.remove(hostile)
        self._source = HostileSite(random, variant, self)
        del self.cores[hostile]
        self.transit = {path: each for path, each in self.transit.items() if hostile not in path}

    def apply(self, site: str, effects: Iterable[OrderEffect]) -> None:
        for effect in effects:
            match effect:
                case Send(packets, sites):
                    sites = tuple(each for each in sites or self.honest if each in self.honest)
                    effect = Send(packets, tuple(each for each in sites if each != site))
                case Suspect(other) | Failed(_, other):
                    self._reconnect(site, str(other))
            super().apply(site, [effect])

    def _reconnect(self, site: str, other: str) -> None:
        self.disconnect(site, other)
        if other == self.hostile:
            if self.is_attacked:
                self.connect_hostile(site)
            return
        self.disconnect(other, site)
        for one, another in ((site, other), (other, site)):
            while not self.connect(one, another):
                pass

    def connect_hostile(self, site: str) -> None:
        core = self.cores[site]
        core.offer_clock(self.hostile, self.at)
        offer, answer = self._source.make_clock(), self._source.make_clock()
        try:
            core.answer_clock(self.hostile, offer, self.at)
            effects = core.connect(self.hostile, answer, self.at)
        except ProtocolError:
            return
        self.apply(site, effects or ())

    def attack(self, site: str) -> None:
        if self.hostile not in self.cores[site].connected:
            self.connect_hostile(site)
        packets = [self._source.make_packet() for _ in range(3)]
        self.receive(site, self.hostile, *packets)

    def end_attack(self) -> None:
        self.is_attacked = False
        for site in self.honest:
            self.disconnect(site, self.hostile)

    def honest_texts(self, site: str) -> list[str]:
        texts = (text.strip("!") for text in self.texts(site))
        return [text for text in texts if text != "hostile"]


class HostileSite:
    """Makes packets that are nearly right, with few different values."""

    def __init__(self, random: Random, variant: str, group: AttackedGroup) -> None:
        self._random = random
        self._variant = variant
        self._site = group.hostile
        self._group = group

    def make_clock(self) -> int:
        return self._counter() if self._variant == "sequencer" else self._time()

    def make_packet(self) -> Packet:
        random = self._random
        if random.random() < 0.4:
            return Message(self._id(self._site), b"hostile", self._sites(), self._message_stamp())
        if self._variant != "sequencer":
            return Clock(self._time())
        epoch, counter = self._epoch(), self._counter()
        headers = tuple(self._header() for _ in range(random.randrange(4)))
        places = tuple(sorted((self._epoch().stamp(random.randrange(4)), each) for each in headers))
        delivered = {(self._name(), 1): random.randrange(20) for _ in range(2)}
        known = {Epoch(random.randrange(9), self._name()): random.randrange(9) for _ in range(2)}
        return random.choice(
            (
                *(Follow(counter), Raised(counter), Left(counter), Refusal(epoch, counter)),
                *(Takeover(epoch, delivered, known), Numbers(epoch, random.randrange(4), headers)),
                *(Answer(epoch, delivered, known, places, headers), Request(headers)),
                *(Begin(epoch, places, known, self._sites()), Known(places, random.randrange(3))),
            )
        )

    def _name(self) -> str:
        return self._random.choice(SITES)

    def _sites(self) -> frozenset[str]:
        return frozenset(self._random.sample(SITES, self._random.randrange(3)))

    def _id(self, site: str) -> MessageId:
        incarnation = self._random.choice((0, 1, 1, 1, 1, 2))
        return MessageId(site, incarnation, self._random.choice((1, 2, 3, 5, 9, 40, 2**50)))

    def _header(self) -> Header:
        return Header(self._id(self._name()), self._sites())

    def _time(self) -> int:
        near = self._group.at.site_clock if self._variant != "logical" else 3000
        return max(0, near + self._random.choice((-(10**7), -5, 0, 5, 1000, 10**6, 2**41, 2**62)))

    def _message_stamp(self) -> Stamp | None:
        if self._random.random() < 0.1 or self._variant == "sequencer":
            return None
        return Stamp(self._time(), self._random.choice((self._site, self._site, self._name())))

    def _counter(self) -> int:
        return self._random.choice((0, 1, 2, 3, 4, 5, 6, 30, 2**25, 2**30))

    def _epoch(self) -> Epoch:
        return Epoch(self._counter(), self._random.choice((self._site, self._site, self._name())))


@pytest.mark.parametrize("seed", seeds(5, 50))
@pytest.mark.parametrize("hostile", SITES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_other_sites_get_their_messages_once_and_then_in_order(
    variant: str, hostile: str, seed: int
) -> None:
    random = Random(seed)
    group = AttackedGroup(variant, hostile, random)
    sent: list[str] = []
    for number in range(30):
        sender = random.choice(group.honest)
        sent.append(f"{sender}{number}")
        group.send(sender, sent[-1])
        for site in group.honest:
            group.attack(site)
        if random.random() < 0.5:
            group.settle()
        group.advance(random.choice((0.0, 0.01, 0.3)), moves=random.random() < 0.9)
    assert all(isinstance(error, ProtocolError) for error in group.failures)
    assert sum(core.refused for core in group.cores.values()) >= len(group.failures) > 0
    group.end_attack()
    group.settle()
    group.advance(15.0)
    after = [f"{site}{number}" for number in range(100, 103) for site in group.honest]
    for text in after:
        group.send(text[0], text)
    group.settle()
    group.advance(3.0)
    for site in group.honest:
        assert sorted(group.honest_texts(site)) == sorted([*sent, *after])
    one, other = (
        [text for text in group.texts(site) if text.strip("!") in after] for site in group.honest
    )
    assert one == other
    assert sorted(one) == sorted(after)
