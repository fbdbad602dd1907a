from __future__ import annotations

import socket
import threading

import pytest

from benchmarks.harness import stomp
from benchmarks.harness.failure import BenchmarkFailed


def test_a_frame_is_command_headers_an_empty_line_body_and_nul() -> None:
    assert stomp.publish(b"<a/>", "r") == (
        b"SEND\ndestination:/topic/flights\npersistent:false\nreceipt:r\n\n<a/>\x00"
    )


def test_headers_are_escaped() -> None:
    assert stomp.frame("X", {"a": "b:c\\d\ne"}) == b"X\na:b\\cc\\\\d\\ne\n\n\x00"


def test_a_selector_quotes_a_query_that_holds_no_apostrophe() -> None:
    assert stomp.xpath_selector('/a = "b"') == "XPATH '/a = \"b\"'"
    with pytest.raises(BenchmarkFailed, match="can not quote"):
        stomp.xpath_selector("/a = 'b'")


def answered(answer: bytes) -> tuple[str, bytes]:
    """Return the outcome, and the bytes sent."""
    ours, theirs = socket.socketpair()
    got = []

    def broker() -> None:
        got.append(theirs.recv(1 << 16))
        theirs.sendall(answer)
        theirs.close()

    thread = threading.Thread(target=broker)
    thread.start()
    try:
        stomp.subscribe(ours, 3, "XPATH '/a'")
        said = ""
    except BenchmarkFailed as error:
        said = str(error)
    finally:
        ours.close()
        thread.join()
    return said, got[0]


def test_a_subscription_holds_when_the_broker_gives_its_receipt() -> None:
    said, told = answered(b"\nRECEIPT\nreceipt-id:subscribed-3\n\n\x00")
    assert said == ""
    assert told.startswith(b"SUBSCRIBE\nid:3\ndestination:/topic/flights\nack:auto\n")
    assert b"\nselector:XPATH '/a'\n" in told


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"ERROR\nmessage:bad selector\n\n\x00", "answered .*bad selector.*not RECEIPT"),
        (b"", "closed the connection"),
    ],
)
def test_a_refused_subscription_ends_the_run(answer: bytes, why: str) -> None:
    import re

    said, _ = answered(answer)
    assert re.search(why, said)
