"""The link stack of the example over real UDP sockets."""

from __future__ import annotations

import pytest
from twisted.trial.unittest import TestCase
from two_parents.stop_and_wait import stop_and_wait

from broker.testing.stack_socket_contract import StackSocketContract


@pytest.mark.system
class TestStopAndWait(StackSocketContract, TestCase):
    stack = stop_and_wait
