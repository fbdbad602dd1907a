"""Links between two hosts whose network loses a fifth of what arrives (A20)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.system.namespaces import Host, TwoHosts, need_namespaces

LOSS_PERCENT = 20
COUNT = "3000"
ACTOR = "tests.system.lossy_actor"

pytestmark = pytest.mark.system


@pytest.fixture
def lossy_hosts() -> Iterator[tuple[Host, ...]]:
    need_namespaces()
    with TwoHosts() as cable:
        cable.lose(LOSS_PERCENT)
        yield cable.hosts


def line(process: subprocess.Popen[str]) -> str:
    """The next line; empty when the process gave up."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(process: subprocess.Popen[str]) -> str:
    """What is left when its input has ended."""
    return process.communicate(timeout=60)[0].strip()


@pytest.mark.parametrize("version", [4, 6])
def test_a_udp_connection_delivers_all_both_ways(
    lossy_hosts: tuple[Host, ...], version: int
) -> None:
    one, other = lossy_hosts
    here = one.address if version == 4 else one.address6
    there = other.address if version == 4 else other.address6
    with other.start(ACTOR, "listen", there, COUNT) as listening:
        assert line(listening) == "listening"
        with one.start(ACTOR, "dial", here, there, COUNT) as dialling:
            assert line(dialling) == "complete"
            assert line(listening) == "complete"
            assert dialling.stdin is not None
            dialling.stdin.close()
            assert line(dialling) == "lost None after repeats"
            assert line(listening) == "lost None after repeats"
        end(listening)


@pytest.mark.parametrize("group", ["239.255.77.2", "ff15::7702"])
def test_a_group_delivers_all_to_each(lossy_hosts: tuple[Host, ...], group: str) -> None:
    one, other = lossy_hosts
    with (
        one.start(ACTOR, "group", "one", group, one.interface, COUNT) as first,
        other.start(ACTOR, "group", "other", group, other.interface, COUNT) as second,
    ):
        assert line(first) == "complete"
        assert line(second) == "complete"
        end(first)
        end(second)
