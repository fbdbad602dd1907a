"""Links between two hosts whose network loses a fifth of all packets (A20)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.system.namespaces import Host, TwoHosts, need_namespaces

LOSS_PERCENT = 20
COUNT = "3000"
LINK_END = "tests.system.lossy_link_end"

pytestmark = pytest.mark.system


@pytest.fixture
def lossy_hosts() -> Iterator[tuple[Host, ...]]:
    need_namespaces()
    with TwoHosts() as cable:
        cable.lose(LOSS_PERCENT)
        yield cable.hosts


def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def remaining_output(process: subprocess.Popen[str]) -> str:
    return process.communicate(timeout=60)[0].strip()


@pytest.mark.parametrize("version", [4, 6])
def test_udp_connection_delivers_everything_both_ways(
    lossy_hosts: tuple[Host, ...], version: int
) -> None:
    one, other = lossy_hosts
    here = one.address if version == 4 else one.address6
    there = other.address if version == 4 else other.address6
    with other.start(LINK_END, "listen", there, COUNT) as listening:
        assert next_line(listening) == "listening"
        with one.start(LINK_END, "dial", here, there, COUNT) as dialling:
            assert next_line(dialling) == "complete"
            assert next_line(listening) == "complete"
            assert dialling.stdin is not None
            dialling.stdin.close()
            assert next_line(dialling) == "lost None after repeats"
            assert next_line(listening) == "lost None after repeats"
        remaining_output(listening)


@pytest.mark.parametrize("group", ["239.255.77.2", "ff15::7702"])
def test_multicast_group_delivers_everything_to_each_member(
    lossy_hosts: tuple[Host, ...], group: str
) -> None:
    one, other = lossy_hosts
    with (
        one.start(LINK_END, "group", "one", group, one.interface, COUNT) as first,
        other.start(LINK_END, "group", "other", group, other.interface, COUNT) as second,
    ):
        assert next_line(first) == "complete"
        assert next_line(second) == "complete"
        remaining_output(first)
        remaining_output(second)
