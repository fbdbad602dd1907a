from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from broker.cluster.address import MAX_DEPTH, Address
from broker.cluster.descriptor import Endpoint
from broker.cluster.discovery.datagram import (
    DATAGRAM_BYTES,
    NONCE_BYTES,
    Answer,
    Question,
    decode,
    encode,
)
from broker.cluster.discovery.multicast_search import (
    ANSWERS_PER_SECOND,
    SEARCH_TIME,
    SearchResponder,
    SeedSearch,
)
from broker.cluster.discovery.multicast_seeds import MulticastSeeds
from broker.cluster.discovery.seed_source import MOST_SEEDS, ISeedSource
from broker.errors import AuthenticationFailed, Closed, PeerError, ProtocolError
from tests.cluster.sample_nodes import a_node

KEY = b"k"
NONCE = bytes(range(NONCE_BYTES))
QUESTION = Question(NONCE, "net")
ANSWER = Answer(NONCE, "net", Address(("c",), "n1"), Endpoint("n1", 4000), True)
LONGEST = Answer(
    NONCE,
    "\u00e9" * 64,
    Address(("x" * 64,) * MAX_DEPTH, "n" * 64),
    Endpoint("h" * 255, 65535),
    False,
)


@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize("datagram", [QUESTION, ANSWER, LONGEST])
def test_a_datagram_round_trips(datagram: Question | Answer, key: bytes | None) -> None:
    assert decode(encode(datagram, key), key) == datagram


def test_answers_do_not_amplify_traffic() -> None:
    assert len(encode(LONGEST, KEY)) <= len(encode(QUESTION, KEY)) == DATAGRAM_BYTES
    short = encode(QUESTION, None).rstrip(b"\0")
    with pytest.raises(ProtocolError):
        decode(short, None)


@pytest.mark.parametrize("keys", [(None, KEY), (KEY, None), (KEY, b"other")])
def test_the_key_must_be_the_same(keys: tuple[bytes | None, bytes | None]) -> None:
    with pytest.raises(AuthenticationFailed):
        decode(encode(QUESTION, keys[0]), keys[1])


@given(st.sampled_from([QUESTION, ANSWER]), st.integers(0, 60), st.integers(0, 255), st.integers(0))
def test_changed_or_truncated_datagrams_are_refused(
    datagram: Question | Answer, where: int, what: int, length: int
) -> None:
    data = encode(datagram, KEY)
    changed = bytearray(data)
    changed[where % len(data)] = what
    for other in (bytes(changed), data[: length % len(data)]):
        if other != data:
            with pytest.raises(PeerError):
                decode(other, KEY)


@given(st.binary(max_size=60))
def test_any_bytes_decode_or_are_refused(data: bytes) -> None:
    for body in (data, encode(ANSWER, None)[: 4 + 1 + NONCE_BYTES + 16] + data):
        try:
            decode(body, None)
        except PeerError:
            continue


@pytest.mark.parametrize("seed", range(20))
def test_a_search_finds_nodes_in_spite_of_loss(seed: int) -> None:
    rng = random.Random(seed)
    nodes = [a_node(f"c/n{number}") for number in range(5)]
    presences = [(node, SearchResponder("net", KEY)) for node in nodes]
    search = SeedSearch("net", KEY)
    now = 100.0
    sent = search.start(now)
    while True:
        for datagram in sent:
            search.receive_datagram(datagram)  # its own question is looped back
            for node, presence in presences:
                answer = presence.answer_datagram(datagram, node, node.name == "n3", now)
                if answer and rng.random() < 0.7:
                    search.receive_datagram(answer)
        due = search.next_timeout()
        if due is None:
            break
        now = due
        sent = search.handle_timeout(now)
    assert now == 100.0 + SEARCH_TIME
    found = search.endpoints()
    assert len(found) >= 3
    assert Endpoint("n3", 4000) not in found[1:]
    assert search.refused == 0


def test_draining_and_undiallable_nodes_do_not_answer() -> None:
    question = encode(QUESTION, None)
    presence = SearchResponder("net", None)
    assert presence.answer_datagram(question, a_node("c/n1"), True, 0.0)
    assert presence.answer_datagram(question, a_node("c/n1", draining=True), True, 0.0) is None
    assert presence.answer_datagram(question, a_node("c/n1", tcp=None), True, 0.0) is None
    assert (
        SearchResponder("other", None).answer_datagram(question, a_node("c/n1"), True, 0.0) is None
    )
    assert presence.answer_datagram(encode(ANSWER, None), a_node("c/n1"), True, 0.0) is None
    assert presence.refused == 0
    assert presence.answer_datagram(b"garbage", a_node("c/n1"), True, 0.0) is None
    assert presence.refused == 1


def test_answers_to_a_flood_are_limited() -> None:
    presence = SearchResponder("net", None)
    question = encode(QUESTION, None)
    answers = [
        presence.answer_datagram(question, a_node("c/n1"), True, tick / 100) for tick in range(300)
    ]
    assert sum(answer is not None for answer in answers) == 3 * ANSWERS_PER_SECOND
    assert presence.refused == 300 - 3 * ANSWERS_PER_SECOND


def test_foreign_answers_are_ignored_and_answers_are_bounded() -> None:
    search = SeedSearch("net", None)
    (question,) = search.start(0.0)
    asked = decode(question, None)
    search.receive_datagram(encode(ANSWER, None))
    search.receive_datagram(encode(Answer(asked.nonce, "other", *_of(0)), None))
    search.receive_datagram(b"garbage")
    assert search.refused == 3
    assert search.endpoints() == ()
    for number in range(MOST_SEEDS + 9):
        search.receive_datagram(encode(Answer(asked.nonce, "net", *_of(number)), None))
    assert len(search.endpoints()) == MOST_SEEDS


def _of(number: int) -> tuple[Address, Endpoint, bool]:
    return Address(("c",), f"n{number}"), Endpoint(f"n{number}", 4000), True


class GroupSeedsTest(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.sent: list[bytes] = []
        self.source = MulticastSeeds(self.clock, "net", None, self.sent.append)
        verifyObject(ISeedSource, self.source)

    def test_concurrent_calls_share_a_search(self) -> None:
        first, second = self.source.find_seeds(), self.source.find_seeds()
        asked = decode(self.sent[0], None)
        self.source.receive_datagram(encode(Answer(asked.nonce, "net", *_of(1)), None))
        self.assertNoResult(first)
        self.clock.pump([0.1] * 20)
        self.assertEqual(self.successResultOf(first), (Endpoint("n1", 4000),))
        self.assertEqual(self.successResultOf(second), (Endpoint("n1", 4000),))
        self.assertEqual(len(self.sent), 3)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.source.receive_datagram(b"too late")
        again = self.source.find_seeds()
        self.clock.pump([0.1] * 20)
        self.assertEqual(self.successResultOf(again), ())

    def test_a_search_can_be_stopped(self) -> None:
        answer = self.source.find_seeds()
        self.source.close()
        self.failureResultOf(answer, Closed)
        self.assertEqual(self.clock.getDelayedCalls(), [])
