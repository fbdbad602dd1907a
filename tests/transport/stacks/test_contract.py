"""The contract of a stack, on the shipped one."""

from __future__ import annotations

import unittest

from broker.testing.stack_contract import StackContract
from broker.transport.stacks import find_stack


class TestMspaces(StackContract, unittest.TestCase):
    stack = find_stack("mspaces")
