"""A stack over raw multicast between two hosts, on a named interface."""

from __future__ import annotations

import pytest

from tests.system.namespaces import TwoHosts, need_namespaces

MEMBER = "tests.system.raw_group_end"

pytestmark = pytest.mark.system


@pytest.mark.parametrize("group", ["239.255.77.4", "ff02::7704"])
def test_each_member_receives_from_the_other_and_not_from_itself(group: str) -> None:
    need_namespaces()
    with TwoHosts() as cable:
        one, other = cable.hosts
        with (
            one.start(MEMBER, "one", group, one.interface) as first,
            other.start(MEMBER, "other", group, other.interface) as second,
        ):
            for process, name in ((first, "other"), (second, "one")):
                assert process.stdout is not None
                assert process.stdout.readline().strip() == name
            # With IPv6 a second address may replace the first.
            assert set(first.communicate(timeout=30)[0].split()) <= {"other"}
            assert set(second.communicate(timeout=30)[0].split()) <= {"one"}
