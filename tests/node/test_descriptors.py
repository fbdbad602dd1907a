from __future__ import annotations

import resource

import attrs
import pytest

from broker.cluster.acceptor import MOST_HANDSHAKES
from broker.config import Settings
from broker.config.inputs import InputSettings
from broker.config.settings import MetricsSettings
from broker.config.stacks import StackInstance
from broker.node.descriptors import (
    INPUT_DESCRIPTORS,
    MAX_DESCRIPTORS,
    METRICS_CONNECTIONS,
    RESERVED,
    count_other_connections,
    reserve_descriptors,
)


def test_connections_of_nodes_have_descriptors_of_their_own() -> None:
    alone = Settings()
    assert count_other_connections(alone) == 0
    network = attrs.evolve(alone.network, listen=("tcp:port=1",), max_tcp_links=10)
    member = attrs.evolve(alone, network=network)
    assert count_other_connections(member) == MOST_HANDSHAKES + 10
    # An instance with links of its own has one to each neighbour, too.
    further = attrs.evolve(member, stacks=(StackInstance("radar", "mspaces", links="rcm"),))
    assert count_other_connections(further) == MOST_HANDSHAKES + 2 * 10
    measured = attrs.evolve(further, metrics=MetricsSettings("tcp:port=2"))
    assert count_other_connections(measured) == MOST_HANDSHAKES + 2 * 10 + METRICS_CONNECTIONS
    feeds = attrs.evolve(alone, inputs=(InputSettings("a", ("in",)), InputSettings("b", ("in",))))
    assert count_other_connections(feeds) == 2 * INPUT_DESCRIPTORS


@pytest.mark.parametrize(
    ("soft", "hard", "left"), [(1_024, 4_096, 4_096), (200, 10**6, MAX_DESCRIPTORS)]
)
def test_clients_get_the_rest(
    soft: int, hard: int, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = [(soft, hard)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limits.append(new))
    assert reserve_descriptors(100) == left - RESERVED - 100
    assert limits[-1] == (left, hard)
    assert reserve_descriptors(10**6) == 1
