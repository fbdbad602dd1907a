"""The contracts of transports, on `rcm`, for each variant of the order."""

from __future__ import annotations

import unittest
from typing import ClassVar

import pytest

from broker.testing.annotation_contract import AnnotationContract
from broker.testing.one_order_contract import OneOrderContract
from broker.testing.transport_contract import TransportContract
from plugins.rcm.options import RcmOptions
from plugins.rcm.plugin import rcm_transport
from plugins.rcm.stack import rcm_links


class RcmCase(OneOrderContract, AnnotationContract, TransportContract):
    plugin = rcm_transport
    links = rcm_links
    order: ClassVar[str]

    def node_options(self, number: int) -> RcmOptions:
        sites = {f"n{each}": f"tcp:host=127.0.0.1:port={9000 + each}" for each in range(9)}
        return RcmOptions(sites=sites, order=self.order)


class TestHybrid(RcmCase, unittest.TestCase):
    order = "hybrid"
    seeds = (0,)


@pytest.mark.soak
class TestHybridLong(RcmCase, unittest.TestCase):
    order = "hybrid"
    seeds = range(1, 10)


@pytest.mark.soak
class TestLogical(RcmCase, unittest.TestCase):
    order = "logical"


@pytest.mark.soak
class TestRealTime(RcmCase, unittest.TestCase):
    order = "real-time"


@pytest.mark.soak
class TestSequencer(RcmCase, unittest.TestCase):
    order = "sequencer"
