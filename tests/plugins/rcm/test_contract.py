"""The contract of a stack, on the `rcm` link stack and its baselines."""

from __future__ import annotations

import unittest
from typing import Any

import attrs
import pytest
from twisted.trial.unittest import TestCase

from broker.testing.stack_contract import StackContract
from broker.testing.stack_network import StackNetwork
from broker.testing.stack_socket_contract import StackSocketContract
from broker.transport.stacks import find_stack
from plugins.rcm.settings import RcmLinkSettings


class RcmContract(StackContract):
    """The time of suspicion is an option of this stack."""

    stack = find_stack("rcm")
    options = RcmLinkSettings()

    def network(
        self, count: int = 2, seed: int = 0, *, suspect: float = 0.0, **others: Any
    ) -> StackNetwork:
        self.options = attrs.evolve(self.options, suspect=suspect)  # type: ignore[misc]
        return super().network(count, seed, suspect=suspect, **others)


class TestRcm(RcmContract, unittest.TestCase):
    pass


@pytest.mark.soak
class TestPlainConnections(RcmContract, unittest.TestCase):
    options = RcmLinkSettings(p2p="tcp")


@pytest.mark.soak
class TestPlainConnectionsWithSuspicion(RcmContract, unittest.TestCase):
    options = RcmLinkSettings(p2p="tcp-suspected")


class RcmOverSocketsTests(StackSocketContract, TestCase):
    stack = find_stack("rcm")


class TestTree(RcmContract, unittest.TestCase):
    options = RcmLinkSettings(fan_out="tree")


class TestGroup(RcmContract, unittest.TestCase):
    """Without a channel to the group: all bodies come as repairs or copies."""

    options = RcmLinkSettings(fan_out="group", group="239.1.2.3:9000", group_interface="lo")

    @pytest.mark.soak
    def test_nine_ends_keep_what_the_stack_provides_over_each_fault(self) -> None:
        super().test_nine_ends_keep_what_the_stack_provides_over_each_fault()
