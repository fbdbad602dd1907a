"""Interest of a client in a mesh."""

from __future__ import annotations

import pytest

from broker.client.mesh_membership import make_interest
from broker.errors import BadName, BadQuery


def test_routers_get_a_prefix_for_each_name_in_the_default_namespace() -> None:
    interest = make_interest("bus.>", "//a[b > 3]/@c", {"": "urn:a", "x": "urn:x"})
    assert interest.pattern.text == "bus.>"
    assert (interest.query, interest.namespaces) == ("//d:a[d:b > 3]/@c", {"d": "urn:a"})
    plain = make_interest(">", "//x:a", {"x": "urn:x"})
    assert (plain.query, plain.namespaces) == ("//x:a", {"x": "urn:x"})


def test_a_bad_query_or_pattern_is_refused() -> None:
    with pytest.raises(BadQuery):
        make_interest(">", "//a[", {"": "urn:a"})
    with pytest.raises(BadName):
        make_interest("a..b", "//a", {})
