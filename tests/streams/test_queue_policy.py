from __future__ import annotations

import pytest
from zope.interface.verify import verifyObject

from broker.errors import BadQueuePolicy
from broker.streams.queue_policy import (
    BLOCK,
    DROP_NEWEST,
    DROP_OLDEST,
    FAIL,
    MAX_POLICY_TEXT,
    Coalesce,
    IQueuePolicy,
    merge_policies,
    parse_queue_policy,
)

ALL = (BLOCK, DROP_OLDEST, DROP_NEWEST, FAIL, Coalesce(), Coalesce("/flight/@id"))


@pytest.mark.parametrize("policy", ALL, ids=lambda policy: policy.text)
def test_a_policy_is_read_from_its_text(policy: IQueuePolicy) -> None:
    verifyObject(IQueuePolicy, policy)
    assert parse_queue_policy(policy.text) == policy


def test_a_key_stores_the_prefixes_that_it_uses() -> None:
    policy = parse_queue_policy("coalesce:/a:flight/@id", {"a": "urn:a", "b": "urn:b"})
    assert policy == Coalesce("/a:flight/@id", (("a", "urn:a"),))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "none of block, drop-oldest, drop-newest, fail, coalesce"),
        ("drop", "'drop' is none of"),
        ("block:", "none of"),
        ("drop-oldest:/flight/@id", "none of"),
        ("x" * (MAX_POLICY_TEXT + 1), "1025 characters, at most 1024"),
        ("coalesce:", "the key of 'coalesce:'"),
        ("coalesce:/flight[", "the key of"),
        ("coalesce:$Stream", "the key of"),
        ("coalesce:/a:flight/@id", "prefix 'a' is not bound"),
        *(
            (f"coalesce:{path}", "no path of elements and attributes")
            for path in (
                *("//@id", "/flight[@id]/leg", "count(/a)", "flight/@id", "/"),
                *("/flight/..", "/child::flight", "/flight/@id | /a", "(/flight)", " /a", "'/a'"),
                *("/flight/following::a", "/Mspaces:Event/a", "/flight/."),
            )
        ),
    ],
)
def test_a_policy_that_does_not_exist_is_refused(text: str, reason: str) -> None:
    with pytest.raises(BadQueuePolicy) as refused:
        parse_queue_policy(text)
    assert reason in str(refused.value)
    assert len(str(refused.value)) < 300


def test_different_policies_merge_to_the_one_without_loss() -> None:
    for first in ALL:
        for second in ALL:
            merged = first if first == second else BLOCK
            assert merge_policies(first, second) == merged
