from __future__ import annotations

import attrs
import pytest

from broker.cluster.link_policy import LinkPolicy
from broker.cluster.neighbours import Neighbour
from tests.cluster.sample_nodes import a_node

EVERYTHING = LinkPolicy(2, 2, 2, 2, False)


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize(("confidential", "rank"), [(True, 2), (False, 1)])
def test_no_setting_lets_high_events_leave_the_machine_in_clear_text(
    trusted: bool, confidential: bool, rank: int
) -> None:
    link = Neighbour(a_node("alps/b"), trusted, False, "tcp", "", True, "b:1")
    link = attrs.evolve(link, confidential=confidential)
    assert EVERYTHING.clearance_of(link) == rank
