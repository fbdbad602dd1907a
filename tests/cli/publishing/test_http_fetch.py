from __future__ import annotations

import gzip
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from broker.cli.publishing.http_fetch import (
    MAX_REDIRECTS,
    FetchError,
    FetchLimits,
    Validators,
    check_url,
    fetch,
)

LIMITS = FetchLimits(max_bytes=10_000, timeout=20.0, silence=10.0)
OK = b"HTTP/1.1 200 OK\r\n"
Script = Callable[[socket.socket, bytes], object]


class Server:
    """Answers each connection by a script, in a thread."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/feed"
        self.requests: list[bytes] = []
        self.over = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection, suppress(OSError):
                    request = b""
                    while not request.endswith(b"\r\n\r\n"):
                        request += connection.recv(4096)
                    self.requests.append(request)
                    self._script(connection, request)

    def close(self) -> None:
        self.over.set()
        # Otherwise the blocked `accept` keeps the port.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextmanager
def serving(script: Script | bytes) -> Iterator[Server]:
    def send(connection: socket.socket, _: bytes) -> None:
        assert isinstance(script, bytes)
        connection.sendall(script)

    with closing(Server(send if isinstance(script, bytes) else script)) as server:
        yield server


def answer(body: bytes, *headers: str) -> bytes:
    head = "".join(f"{each}\r\n" for each in (*headers, f"Content-Length: {len(body)}"))
    return OK + head.encode() + b"\r\n" + body


def test_an_unchanged_answer_is_not_fetched_again() -> None:
    def serve(connection: socket.socket, request: bytes) -> None:
        if b'If-None-Match: "1"' in request and b"If-Modified-Since: Tue" in request:
            connection.sendall(b"HTTP/1.1 304 Not Modified\r\n\r\n")
        else:
            connection.sendall(answer(b"<a/>", 'ETag: "1"', "Last-Modified: Tue"))

    with serving(serve) as server:
        first = fetch(server.url, Validators(), LIMITS)
        assert first.body is not None
        with first.body as body:
            assert body.read() == b"<a/>"
        assert (first.validators.etag, first.validators.modified) == ('"1"', "Tue")
        second = fetch(server.url, first.validators, LIMITS)
        assert (second.body, second.validators) == (None, first.validators)


def test_an_equal_body_without_validators_is_unchanged() -> None:
    with serving(answer(b"<a/>")) as server:
        first = fetch(server.url, Validators(), LIMITS)
        assert first.body is not None
        first.body.close()
        assert fetch(server.url, first.validators, LIMITS).body is None


@pytest.mark.parametrize(
    "value", ["x" * 10_000, "a\x01b", "\xe9"], ids=["long", "control", "not ascii"]
)
def test_a_validator_that_can_not_be_sent_is_ignored(value: str) -> None:
    head = f"ETag: {value}\r\nContent-Length: 0\r\n\r\n".encode("latin-1")
    with serving(OK + head) as server:
        found = fetch(server.url, Validators(), LIMITS)
        assert found.body is not None
        found.body.close()
        assert found.validators.etag == ""


def test_a_compressed_answer_stays_compressed() -> None:
    packed = gzip.compress(b"<a/>")
    with serving(answer(packed, "Content-Encoding: gzip")) as server:
        found = fetch(server.url, Validators(), LIMITS)
        assert found.body is not None
        with found.body as body:
            assert body.read() == packed
        assert b"Accept-Encoding: gzip" in server.requests[0]


def test_redirects_are_followed_with_the_validators() -> None:
    def serve(connection: socket.socket, request: bytes) -> None:
        if request.startswith(b"GET /feed "):
            connection.sendall(b"HTTP/1.1 301 M\r\nLocation: /new\r\nContent-Length: 0\r\n\r\n")
        else:
            connection.sendall(answer(b"<a/>"))

    with serving(serve) as server:
        found = fetch(server.url, Validators('"1"'), LIMITS)
        assert found.body is not None
        found.body.close()
        assert [b'If-None-Match: "1"' in each for each in server.requests] == [True, True]


def redirect(target: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode()


CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
REFUSED = (
    (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "the server answers 503 Busy"),
    (b"HTTP/1.1 204 No Content\r\n\r\n", "the server answers 204"),
    (b"not HTTP at all\r\n\r\n", "the answer is not HTTP"),
    (b"", "the answer is not HTTP, or is cut short|Remote end closed"),
    (OK + b"Content-Length: 10\r\n\r\n<a/>", "cut short"),
    (CHUNKED + b"4\r\n<a/>\r\n", "cut short"),
    (CHUNKED + b"zz\r\n", "cut short"),
    (answer(b"x" * 10_001), "larger than 10000 bytes"),
    (answer(b"x", "Content-Encoding: br"), "the content encoding 'br' is not supported"),
    (OK + b"a: b\r\n" * 200 + b"\r\n", "got more than 100 headers"),
    (OK + b"a: " + b"b" * 100_000 + b"\r\n\r\n", "cut short: got more than 65536 bytes"),
    (
        redirect("file:///etc/passwd"),
        "302 Found - Redirection to url 'file:///etc/passwd' is not allowed",
    ),
    (redirect("ftp://example.org/x"), "redirects to ftp://example.org/x, which is not followed"),
    (redirect("/feed"), "the server answers 302"),
)


@pytest.mark.parametrize(("sent", "reason"), REFUSED, ids=[each[1] for each in REFUSED])
def test_a_bad_answer_is_an_error_with_its_reason(sent: bytes, reason: str) -> None:
    with serving(sent) as server:
        with pytest.raises(FetchError, match=reason):
            fetch(server.url, Validators(), LIMITS)
        assert len(server.requests) <= MAX_REDIRECTS + 1


def test_a_silent_server_is_given_up() -> None:
    with serving(lambda *_: server.over.wait()) as server:
        with pytest.raises(FetchError, match=r"no answer within 0\.05 s"):
            fetch(server.url, Validators(), FetchLimits(silence=0.05))


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n", OK + b"\r\n"], ids=["headers", "body"])
def test_a_server_that_sends_a_byte_at_a_time_is_given_up(head: bytes) -> None:
    def drip(connection: socket.socket, _: bytes) -> None:
        connection.sendall(head)
        while not server.over.wait(0.01):
            connection.sendall(b"x")

    with serving(drip) as server:
        with pytest.raises(FetchError, match=r"no complete answer within 0\.2 s"):
            fetch(server.url, Validators(), FetchLimits(timeout=0.2, silence=10.0))


def test_an_unreachable_server_is_an_error() -> None:
    with serving(b"") as server:
        url = server.url
    with pytest.raises(FetchError, match="Connection refused"):
        fetch(url, Validators(), LIMITS)


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://a/b", "file:///etc/passwd", "a.xml", "https:///a", "http://a b", "http://a/\n"),
        *("http://u:p@a/", "http://a:99999/", "http://[a/", "http://a/ü"),
    ],
)
def test_an_address_that_is_not_fetched_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="."):
        check_url(url)
