from __future__ import annotations

from typing import Any, cast

import pytest
from twisted.internet.task import Clock

from broker.config.limits import LimitSettings
from broker.identity.identity import Identity, anonymous_identity
from broker.ingest.account_rate import LARGE_MARKUP, AccountRate, RateLimits, count_large_markup
from broker.ingest.publisher import Publisher
from broker.ingest.rated_input import RatedInput
from broker.limit_registry import LimitRegistry
from broker.matching.document_limits import MAX_MARKUP
from broker.wire.event_batch import Batch


class TakingInput:
    """Takes all documents that it gets, with the time, unless it is told to take fewer."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.taken: list[tuple[float, str, int]] = []
        self.most = 1000

    def ingest_waiting(self, publisher: Publisher, max_documents: int, seconds: float) -> None:
        for part in publisher.next_parts(min(max_documents, self.most)):
            part.submission.appended = part.stop
            client = publisher.identity.client_id
            self.taken.append((self.clock.seconds(), client, len(part.documents)))
            if not part.submission.remaining:
                publisher.remove_submission(part.submission)

    def discard_waiting(self, publisher: Publisher) -> None:
        publisher.waiting.clear()


class Node:
    def __init__(self, events: int = 0, size: int = 0, markup: int = 0) -> None:
        self.clock = Clock()
        self.input = TakingInput(self.clock)
        self.registry = LimitRegistry()
        settings = LimitSettings(
            account_events_per_second=events,
            account_bytes_per_second=size,
            account_markup_per_second=markup,
        )
        self.rated = RatedInput(cast(Any, self.input), settings, self.clock, self.registry)

    def publisher(self, client_id: str, account: str = "feed") -> Publisher:
        identity = anonymous_identity(client_id)
        of_account = Identity(account, client_id, identity.rights, identity.clearance, False)

        def run() -> None:
            while publisher.is_ready:
                self.rated.ingest_waiting(publisher, 100, 1.0)

        publisher = Publisher(run, of_account, 1, lambda _: None)
        return publisher

    def publish(self, publisher: Publisher, *documents: bytes) -> None:
        publisher.add_batch(Batch(1, list(documents)))
        publisher.on_resumed()

    def count_taken(self, until: float = 1e9) -> int:
        return sum(count for at, _, count in self.input.taken if at <= until)

    def advance(self, seconds: float) -> None:
        """In steps, as timers are late at most by a step."""
        for _ in range(round(seconds * 1000)):
            self.clock.advance(0.001)


def test_account_without_limit_or_name_does_not_wait() -> None:
    for node, account in ((Node(), "feed"), (Node(events=1, size=1), "")):
        node.publish(node.publisher("a", account), *[b"x" * 10] * 500)
        assert node.count_taken() == 500


def test_account_publishes_a_burst_and_then_its_rate() -> None:
    node = Node(events=100)
    publisher = node.publisher("a")
    node.publish(publisher, *[b"x"] * 1000)
    assert node.count_taken() == 100
    assert publisher.is_paused
    for second in range(1, 6):
        node.advance(1.0)
        assert 100 * second + 90 <= node.count_taken() <= 100 * second + 101
    limits = {each.name: each for each in node.registry}
    limit = limits["account-events-per-second"]
    assert limit.reached > 10
    assert limit.find_used() == pytest.approx(100, abs=10)
    assert limits["account-bytes-per-second"].reached == 0


def test_sessions_of_an_account_share_its_rate() -> None:
    node = Node(events=100)
    publishers = [node.publisher(each) for each in "abcd"]
    for each in publishers:
        node.publish(each, *[b"x"] * 1000)
    node.publish(node.publisher("other", account="other"), *[b"x"] * 50)
    node.advance(10.0)
    taken = dict.fromkeys("abcd", 0) | {"other": 0}
    for _, client, count in node.input.taken:
        taken[client] += count
    assert taken.pop("other") == 50
    assert 1000 <= sum(taken.values()) <= 1101
    # The first one had the burst.
    assert min(taken.values()) > 200


def test_document_larger_than_the_burst_passes_alone_in_its_time() -> None:
    node = Node(size=1000)
    publisher = node.publisher("a")
    node.publish(publisher, b"x" * 5000, b"y" * 10, b"z" * 10)
    assert node.count_taken() == 1
    node.advance(3.9)
    assert node.count_taken() == 1
    node.advance(0.2)
    assert node.count_taken() == 3


def test_fractions_of_tokens_add_up() -> None:
    rate = AccountRate(RateLimits(events=3), 0.0)
    now, taken = 0.0, 0
    while now < 30:
        if not rate.find_wait(now):
            taken += 1
            rate.take([b""], now)
        now += 0.0101
    assert 91 <= taken <= 93


def test_documents_that_are_not_taken_do_not_count() -> None:
    node = Node(events=100)
    node.input.most = 0
    publisher = node.publisher("a")
    publisher.add_batch(Batch(1, [b"x"] * 100))
    for _ in range(10):
        node.rated.ingest_waiting(publisher, 100, 1.0)
    node.input.most = 1000
    publisher.on_resumed()
    assert node.count_taken() == 100


def test_end_of_a_session_leaves_no_timer() -> None:
    node = Node(events=1)
    publisher = node.publisher("a")
    node.publish(publisher, b"x", b"y")
    assert node.clock.getDelayedCalls()
    node.rated.discard_waiting(publisher)
    assert not node.clock.getDelayedCalls()


def test_changed_limits_hold_for_the_next_document() -> None:
    node = Node(events=1)
    publisher = node.publisher("a")
    node.publish(publisher, *[b"x"] * 50)
    assert node.count_taken() == 1
    # Equal ones give no second burst.
    node.rated.rates.limits = RateLimits(events=1)
    node.advance(0.5)
    assert node.count_taken() == 1
    node.rated.rates.limits = RateLimits()
    node.advance(1.0)
    assert node.count_taken() == 50


def test_documents_are_allowed_by_tokens_of_both_kinds() -> None:
    documents = [b"x" * 10] * 5
    unlimited = AccountRate(RateLimits(), 0.0)
    assert unlimited.find_wait(0.0) == 0.0 and unlimited.count_allowed(documents, 0.0) == 5
    rate = AccountRate(RateLimits(events=3, bytes=100), 0.0)
    assert rate.count_allowed(documents, 0.0) == 3
    # One token is enough for any document; without one, none is allowed.
    assert rate.count_allowed([b"x" * 99, b"y" * 500, b"z"], 0.0) == 2
    assert rate.count_allowed([b"x" * 100, b"y"], 0.0) == 1


def test_an_account_with_one_event_a_second_waits_a_second() -> None:
    rate = AccountRate(RateLimits(events=1), 0.0)
    assert rate.find_wait(0.0) == 0.0
    rate.take([b""], 0.0)
    assert rate.find_wait(0.0) == 1.0 and rate.find_wait(1.0) == 0.0


@pytest.mark.parametrize(
    ("events", "taken", "wait"), [(100, 99, 0.0), (100, 100, 0.05), (10, 9, 0.0), (10, 10, 0.1)]
)
def test_an_account_waits_only_without_a_token(events: int, taken: int, wait: float) -> None:
    rate = AccountRate(RateLimits(events=events), 0.0)
    rate.take([b""] * taken, 0.0)
    assert rate.find_wait(0.0) == pytest.approx(wait)


def test_limits_that_nobody_has_reached_are_not_used() -> None:
    node = Node(size=1000)
    limits = {each.name: each for each in node.registry}
    limit = limits["account-bytes-per-second"]
    assert limit.find_used() == 0.0
    node.publish(node.publisher("a"), *[b"x" * 500] * 4)
    node.advance(0.1)
    assert limit.reached > 0 == limits["account-events-per-second"].reached


def test_only_large_events_use_up_the_rate_of_markup() -> None:
    node = Node(markup=LARGE_MARKUP)
    publisher = node.publisher("a")
    small, large = b"<a/>" * LARGE_MARKUP, b"<a/>" * 2 * LARGE_MARKUP
    text = b"<a>" + b"x = 1 " * 2 * LARGE_MARKUP
    node.publish(publisher, *[small, text] * 100)
    assert node.count_taken() == 200
    node.publish(publisher, large, large, small)
    assert node.count_taken() == 201
    node.advance(1.1)
    assert node.count_taken() == 202
    node.advance(2.0)
    assert node.count_taken() == 203
    # It is refused.
    node.publish(publisher, b"<a/>" * (MAX_MARKUP + 1), small)
    assert node.count_taken() == 205
    (limit,) = (each for each in node.registry if each.name == "account-markup-per-second")
    assert limit.reached >= 2 and limit.setting == "limits.account_markup_per_second"
    assert limit.find_bound() == LARGE_MARKUP


def test_markup_of_large_events_that_are_not_refused_counts() -> None:
    limits = RateLimits()
    assert count_large_markup(limits, b"<a/>") == 0
    assert count_large_markup(limits, b"<a/>" * LARGE_MARKUP + b" ") == 0
    assert count_large_markup(limits, b"<a/>" * (LARGE_MARKUP + 1)) == LARGE_MARKUP + 1
    assert count_large_markup(limits, b"<a/>" * MAX_MARKUP) == MAX_MARKUP
    assert count_large_markup(limits, b"<a/>" * (MAX_MARKUP + 1)) == 0
