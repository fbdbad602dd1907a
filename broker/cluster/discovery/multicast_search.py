"""Search for nodes in a multicast group, and answers to searches. Sans-I/O."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from broker.cluster.descriptor import Endpoint, NodeDescriptor
from broker.cluster.discovery.datagram import NONCE_BYTES, Answer, Question, decode, encode
from broker.cluster.discovery.seed_source import MOST_SEEDS
from broker.errors import PeerError

#: Seconds; a datagram may be lost.
_REPEATS = (0.0, 0.3, 0.8)
SEARCH_TIME = 1.5
#: Limits the answers to a flood of questions.
ANSWERS_PER_SECOND = 20


class SeedSearch:
    """A search in a multicast group. It ends when `next_timeout` is None."""

    def __init__(self, network: str, key: bytes | None) -> None:
        self._network = network
        self._key = key
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self._due: list[float] = []
        self._ends: float | None = None
        self._answers: dict[Endpoint, Answer] = {}
        self.refused = 0

    def start(self, now: float) -> list[bytes]:
        self._due = [now + after for after in _REPEATS]
        self._ends = now + SEARCH_TIME
        return self.handle_timeout(now)

    def receive_datagram(self, datagram: bytes) -> None:
        try:
            answer = decode(datagram, self._key)
        except PeerError:
            self.refused += 1
            return
        if isinstance(answer, Question):
            return  # Searching nodes receive each other's questions.
        if (answer.nonce, answer.network) != (self._nonce, self._network):
            self.refused += 1
        elif answer.endpoint in self._answers or len(self._answers) < MOST_SEEDS:
            self._answers[answer.endpoint] = answer

    def handle_timeout(self, now: float) -> list[bytes]:
        if self._ends is not None and now >= self._ends:
            self._ends = None
            self._due.clear()
        if not self._due or now < self._due[0]:
            return []
        self._due = [due for due in self._due if due > now]
        return [encode(Question(self._nonce, self._network), self._key)]

    def next_timeout(self) -> float | None:
        return self._due[0] if self._due else self._ends

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoints that answered, those with room first."""
        answers = sorted(self._answers.values(), key=lambda each: (not each.has_room, each.address))
        return tuple(answer.endpoint for answer in answers)


class SearchResponder:
    """Answers searches, unless its node is draining or has no TCP endpoint."""

    def __init__(self, network: str, key: bytes | None) -> None:
        self._network = network
        self._key = key
        self._second = 0
        self._answered = 0
        self.refused = 0

    def answer_datagram(
        self, datagram: bytes, node: NodeDescriptor, has_room: bool, now: float
    ) -> bytes | None:
        """Return the answer; `has_room` is True if the node's cluster admits another member."""
        try:
            question = decode(datagram, self._key)
        except PeerError:
            self.refused += 1
            return None
        if not isinstance(question, Question) or question.network != self._network:
            return None
        if node.tcp is None or node.draining or not self._may_answer(now):
            return None
        answer = Answer(question.nonce, self._network, node.address, node.tcp, has_room)
        return encode(answer, self._key)

    def _may_answer(self, now: float) -> bool:
        if int(now) != self._second:
            self._second, self._answered = int(now), 0
        self._answered += 1
        if self._answered > ANSWERS_PER_SECOND:
            self.refused += 1
            return False
        return True
