"""The contract of a stack over real sockets, on the shipped one."""

from __future__ import annotations

from twisted.trial.unittest import TestCase

from broker.testing.stack_socket_contract import StackSocketContract
from broker.transport.stacks import find_stack


class TestMspaces(StackSocketContract, TestCase):
    stack = find_stack("mspaces")
