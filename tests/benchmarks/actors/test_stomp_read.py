from __future__ import annotations

import socket

import pytest

from benchmarks.actors.stomp_read import count_matches, read_all
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.flights import flight_payload, report_of


def ends(frames: int) -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.sendall(b"MESSAGE\n\n<a/>\x00\n" * frames)
    return ours, theirs


def test_reading_ends_when_each_socket_has_had_its_frames() -> None:
    (first, other), (second, another) = ends(3), ends(1)
    with first, other, second, another:
        assert read_all({first: 3, second: 1}) > 0


def test_a_message_too_many_ends_the_run() -> None:
    (first, other), (second, another) = ends(3), ends(1)
    with first, other, second, another:
        with pytest.raises(BenchmarkFailed, match="other messages than it should"):
            read_all({first: 3, second: 0})


def test_a_broker_that_hangs_up_ends_the_run() -> None:
    ours, theirs = ends(1)
    theirs.close()
    with ours, pytest.raises(BenchmarkFailed, match="other messages than it should"):
        read_all({ours: 2})


def test_expected_selector_matches_agree_with_lxml() -> None:
    number = 17
    query = f'/flight[id = "{report_of(number).flight_id}"]'
    assert count_matches([query, "/flight", "/nothing"], range(number, number + 1)) == 2
    assert b"<flight>" in flight_payload(number)
