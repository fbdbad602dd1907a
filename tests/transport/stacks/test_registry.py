from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from twisted.logger import ILogObserver, LogEvent, LogLevel, globalLogPublisher

from broker.errors import AmbiguousStack, UnknownStack
from broker.transport.stacks import IProtocolStack, find_stack, find_stacks
from tests.drop_in import DropIn

STACK = """
import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer
from broker.transport.stacks import IProtocolStack

@implementer(IPlugin, IProtocolStack)
class {kind}:
    version = 1
    summary = "for this test"
    options = attrs.make_class("Options", [])
    transports = frozenset()
    {name}
    def layers(self, settings): return []

stack = {kind}()
again = stack
"""


@pytest.fixture
def logged() -> Iterator[list[LogEvent]]:
    events: list[LogEvent] = []
    note = cast(ILogObserver, events.append)
    globalLogPublisher.addObserver(note)
    yield events
    globalLogPublisher.removeObserver(note)


def errors(logged: list[LogEvent]) -> list[str]:
    found = [event for event in logged if event["log_level"] >= LogLevel.error]
    return [str(event.get("failure") or event.get("wrong")) for event in found]


def written(name: str, kind: str = "Stack") -> str:
    return STACK.format(kind=kind, name=f"name = {name!r}")


def names(stacks: tuple[IProtocolStack, ...]) -> list[str]:
    return [stack.name for stack in stacks]


def test_our_own_stack_is_found_through_its_drop_in() -> None:
    assert find_stack("mspaces").name == "mspaces"


def test_a_drop_in_is_found_and_an_object_with_two_names_counts_once(drop_in: DropIn) -> None:
    drop_in("zz_ferry", written("ferry"))
    assert names(find_stacks()) == ["dcp", "ferry", "mspaces", "rcm"]
    assert find_stack("ferry") is find_stacks()[1]


def test_a_name_that_is_not_found_is_answered_with_those_there_are(drop_in: DropIn) -> None:
    drop_in("zz_ferry", written("ferry"))
    with pytest.raises(
        UnknownStack,
        match="'mspace' is installed, did you mean 'mspaces'. there are: dcp, ferry, mspaces, rcm$",
    ):
        find_stack("mspace")


def test_two_stacks_of_one_name_are_both_named_and_the_others_work(drop_in: DropIn) -> None:
    drop_in("zz_one", written("ferry", "Ferry"))
    drop_in("zz_two", written("ferry", "Boat"))
    with pytest.raises(AmbiguousStack) as caught:
        find_stack("ferry")
    assert str(caught.value) == (
        "the stack 'ferry' is installed 2 times: "
        "by twisted.plugins.zz_one.Ferry and twisted.plugins.zz_two.Boat"
    )
    assert find_stack("mspaces").name == "mspaces"
    with pytest.raises(UnknownStack, match="there are: dcp, ferry, mspaces, rcm$"):
        find_stack("x")


def test_a_drop_in_that_fails_is_reported_once_and_the_others_work(
    drop_in: DropIn, logged: list[LogEvent]
) -> None:
    drop_in("zz_broken", "raise RuntimeError('no such library')")
    drop_in("zz_ferry", written("ferry"))
    for _ in range(3):
        assert names(find_stacks()) == ["dcp", "ferry", "mspaces", "rcm"]
        assert find_stack("ferry").version == 1
    (error,) = errors(logged)
    assert "no such library" in error


@pytest.mark.parametrize("name", ["", "name = 7"])
def test_a_stack_that_breaks_the_contract_is_reported_once_and_left_out(
    name: str, drop_in: DropIn, logged: list[LogEvent]
) -> None:
    drop_in("zz_bad", STACK.format(kind="Bad", name=name))
    for _ in range(3):
        assert names(find_stacks()) == ["dcp", "mspaces", "rcm"]
    (error,) = errors(logged)
    assert "name" in error


def test_a_folder_that_takes_no_cache_is_noted_once(
    drop_in: DropIn, tmp_path: Path, logged: list[LogEvent]
) -> None:
    drop_in("zz_ferry", written("ferry"))
    # No user can write a file there, not even root.
    (tmp_path / "twisted" / "plugins" / "dropin.cache").mkdir()
    for _ in range(3):
        assert find_stack("ferry").name == "ferry"
    noted = [event for event in logged if str(tmp_path) in str(event.get("path"))]
    assert len(noted) == 1
    assert errors(logged) == []
