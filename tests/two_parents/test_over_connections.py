"""The example's transport over the link stack `mspaces`, on connections in virtual time."""

from __future__ import annotations

import unittest

import pytest

from plugins.mspaces.stack import mspaces
from tests.contract_parts import check_parts
from tests.two_parents.test_contract import TwoParentsCase


@pytest.mark.soak
class TestOverConnections(TwoParentsCase, unittest.TestCase):
    links = mspaces
    seeds = range(20)


@pytest.mark.parametrize(
    "part",
    [
        "test_three_nodes_get_each_event_once_and_in_order",
        "test_foreign_connections_change_nothing",
        "test_a_node_in_between_that_restarts_takes_its_place_again",
        "test_faults_of_both_networks_lose_no_event",
    ],
)
def test_the_example_keeps_the_contract_over_connections(part: str) -> None:
    check_parts(TestOverConnections, part)
