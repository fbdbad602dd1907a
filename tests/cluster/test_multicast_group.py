from __future__ import annotations

from typing import Any, cast

from broker.cluster.multicast_group import ClusterGroup


def new_group() -> ClusterGroup:
    group = ClusterGroup(lambda frame: None, lambda name: name != "stranger")
    group.set_transport(cast(Any, object()))
    return group


def test_receivers_are_linked_members_that_receive_this_node() -> None:
    group = new_group()
    for name in ("b", "c", "stranger"):
        group.sender_appeared(name)
    assert list(group.receivers) == []
    for name in ("b", "c", "stranger"):
        group.reachability_changed(name, True)
    assert sorted(group.receivers) == ["b", "c"]
    group.reachability_changed("b", False)
    assert list(group.receivers) == ["c"]
    group.sender_disappeared("c")
    assert list(group.receivers) == []


def test_a_full_group_has_no_receivers_and_a_new_transport_is_empty() -> None:
    group = new_group()
    group.reachability_changed("b", True)
    group.writable_changed(False)
    assert list(group.receivers) == []
    group.set_transport(None)
    group.set_transport(cast(Any, object()))
    group.reachability_changed("b", True)
    assert list(group.receivers) == ["b"]
