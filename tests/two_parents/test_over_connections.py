"""The example's transport over the link stack `mspaces`, on connections in virtual time."""

from __future__ import annotations

import unittest

import pytest

from plugins.mspaces.stack import mspaces
from tests.two_parents.test_contract import TwoParentsCase


class TestOverConnections(TwoParentsCase, unittest.TestCase):
    links = mspaces
    seeds = range(1)


@pytest.mark.soak
class TestOverConnectionsLong(TestOverConnections):
    seeds = range(1, 20)
