"""The example over the links of `rcm`, in whole nodes: its contract, and silent directions."""

from __future__ import annotations

import unittest

import pytest

from plugins.rcm.settings import RcmLinkSettings
from plugins.rcm.stack import rcm_links
from tests.two_parents.test_contract import TwoParentsCase


@pytest.mark.soak
class TestTwoParentsOverRcm(TwoParentsCase, unittest.TestCase):
    links = rcm_links
    link_options = RcmLinkSettings()
    seeds = (0,)

    def test_nothing_is_lost_while_one_direction_between_two_nodes_is_silent(self) -> None:
        with self.network(1) as network:
            network.add_publisher("n0")
            network.add_publisher("n2")
            network.subscribe("reader", "n2")
            network.publish(5)
            network.world.silence("n0", "n2")
            network.publish(5)
            network.world.run(20.0)
            self.assertFalse(network.world.are_linked("n0", "n2"))
            network.publish(5)
            network.world.end_silence("n0", "n2")
            network.world.run(10.0)
            self.assertTrue(network.world.are_linked("n0", "n2"))
            network.settle()
            network.check_states()
