"""Who is sent to by a cluster's group."""

from __future__ import annotations

from typing import Any, cast

from broker.cluster.multicast_group import ClusterGroup


def new_group() -> ClusterGroup:
    group = ClusterGroup(lambda frame: None, lambda name: name != "stranger")
    group.set_transport(cast(Any, object()))
    return group


def test_members_are_those_who_hear_this_node_and_have_a_link() -> None:
    group = new_group()
    for name in ("b", "c", "stranger"):
        group.sender_appeared(name)
    assert list(group.receivers) == []
    for name in ("b", "c", "stranger"):
        group.hears_changed(name, True)
    assert sorted(group.receivers) == ["b", "c"]
    group.hears_changed("b", False)
    assert list(group.receivers) == ["c"]
    group.sender_vanished("c")
    assert list(group.receivers) == []


def test_while_too_much_waits_there_are_none_and_a_new_port_has_nothing_waiting() -> None:
    group = new_group()
    group.hears_changed("b", True)
    group.writable_changed(False)
    assert list(group.receivers) == []
    group.set_transport(None)
    group.set_transport(cast(Any, object()))
    group.hears_changed("b", True)
    assert list(group.receivers) == ["b"]
