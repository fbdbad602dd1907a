from __future__ import annotations

import gzip
import io
import re
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import attrs
import pytest

from broker.cli.publishing.document_reader import Item, read_opened
from broker.cli.publishing.http_fetch import Answer, FetchError, Validators
from broker.cli.publishing.polled_url import UrlPoll
from broker.cli.publishing.preparation import Preparation
from broker.cli.publishing.publication import PortionEnd, Publication, Refusal
from broker.cli.publishing.published_table import PublishedTable
from broker.cli.publishing.source import ByteBound, open_stream

URL = "https://example.org/feed"
FLIGHT = b"<flight><id>1</id><flightleg/></flight>"


@pytest.fixture
def table(tmp_path: Path) -> Iterator[PublishedTable]:
    with closing(PublishedTable(tmp_path / "t.db")) as table:
        yield table


class Server:
    """Answers in order; each fetch takes 10 s of the clock."""

    def __init__(self, *answers: Answer | FetchError) -> None:
        self._answers = list(answers)
        self.known: list[Validators] = []
        self.waited: list[float] = []
        self.now = 100.0

    def fetch(self, url: str, known: Validators) -> Answer:
        self.known.append(known)
        self.now += 10.0
        answer = self._answers.pop(0)
        if isinstance(answer, FetchError):
            raise answer
        return answer

    def wait(self, seconds: float) -> bool:
        self.waited.append(seconds)
        self.now += seconds
        return not self._answers

    def poll(self, table: PublishedTable, options: bytes = b"") -> list[Item | PortionEnd]:
        return list(
            UrlPoll(
                urls=(URL,),
                interval=60.0,
                read_body=lambda url, body: read_opened(
                    open_stream(url, body, ByteBound(1000)), Preparation(), None
                ),
                fetch=self.fetch,
                table=table,
                wait=self.wait,
                clock=lambda: self.now,
                options=options,
            ).read()
        )


def answer(etag: str, body: bytes | None = FLIGHT) -> Answer:
    return Answer(None if body is None else io.BytesIO(body), Validators(etag))


def record(table: PublishedTable, items: list[Item | PortionEnd]) -> None:
    for item in items:
        if isinstance(item, PortionEnd) and item.key is not None:
            table.record(item.key, item.value)


def test_each_fetch_is_conditional_on_the_one_before(table: PublishedTable) -> None:
    server = Server(answer("1"), answer("1", None), answer("2"), FetchError("503"), answer("3"))
    items = server.poll(table)
    assert [known.etag for known in server.known] == ["", "1", "1", "2", "2"]
    assert [type(item).__name__ for item in items] == [
        *("Publication", "PortionEnd", "Publication", "PortionEnd"),
        *("Refusal", "PortionEnd", "Publication", "PortionEnd"),
    ]
    # The failed fetch is no part of the next answer.
    assert items[5] == PortionEnd(None)
    assert str(items[4]) == f"{URL}: can not be fetched: 503; tried again in 1m"
    assert server.waited == [50.0] * 5


def test_the_state_of_an_address_outlives_the_process(table: PublishedTable) -> None:
    record(table, Server(answer("1")).poll(table))
    later, other = Server(answer("1", None)), Server(answer("1", None))
    later.poll(table)
    assert later.known == [Validators("1")]
    # Other options make other events of the same answer.
    other.poll(table, options=b"x")
    assert other.known == [Validators()]


def test_an_answer_that_is_not_published_is_fetched_again(table: PublishedTable) -> None:
    assert isinstance(Server(answer("1")).poll(table)[0], Publication)
    later = Server(answer("1"))
    later.poll(table)
    assert later.known == [Validators()]


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b'{"etag": "x"}', b"\xff"])
def test_a_damaged_state_is_ignored(table: PublishedTable, value: bytes) -> None:
    _, end = Server(answer("1")).poll(table)
    assert isinstance(end, PortionEnd)
    record(table, [attrs.evolve(end, value=value)])
    server = Server(answer("1"))
    server.poll(table)
    assert server.known == [Validators()]


def tar(**members: bytes) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


FEW, MANY = FLIGHT * 10, FLIGHT * 100
BOUNDED = (
    (gzip.compress(MANY), "it is larger than 1000 bytes, unpacked"),
    (gzip.compress(gzip.compress(MANY)), "it is larger than 1000 bytes"),
    (gzip.compress(tar(a=FEW, b=MANY)), "it is larger than 1000 bytes"),
    # Nobody reads this member.
    (gzip.compress(tar(a=FEW, b=b"?" * 100_000)), "it is larger than 1000 bytes"),
    (gzip.compress(MANY)[:-10], "."),
    (gzip.compress(FEW)[:-10], "reading stopped after this: Compressed file ended"),
)


@pytest.mark.parametrize(("body", "reason"), BOUNDED, ids=range(len(BOUNDED)))
def test_an_answer_is_bounded_unpacked(table: PublishedTable, body: bytes, reason: str) -> None:
    *_, last, end = Server(answer("1", body)).poll(table)
    assert isinstance(last, Refusal)
    assert isinstance(end, PortionEnd)
    assert re.search(reason, last.reason)


def test_a_slow_round_is_followed_by_the_next_at_once(table: PublishedTable) -> None:
    server = Server(answer("1"))
    fetch = server.fetch

    def slow(url: str, known: Validators) -> Answer:
        server.now += 100.0
        return fetch(url, known)

    server.fetch = slow  # type: ignore[method-assign]
    server.poll(table)
    assert server.waited == [0.0]
