from __future__ import annotations

import pytest

from broker.cli.publishing.split_path import parse_split_path
from broker.errors import BadQuery

UNSUPPORTED = (
    ("alert", "give a path from the root"),
    ("//a | //b", "give a path from the root"),
    ("/Mspaces:Event/a", "give a path from the root"),
    ("/", "no element at its end"),
    ("//a[1]", "column 5"),
    ("//a[b = '1']", "only attributes of its element"),
    ("//a[@b = 1]", "compares attributes with texts"),
    ("//a[position() = 1]", "compares attributes with texts"),
    ("//a/@b", "only names of elements"),
    ("//a/text()", "only names of elements"),
    ("//a/..", "only names of elements"),
    ("//p:a", "the prefix p is not bound: give --namespace p=URI"),
)


@pytest.mark.parametrize(("path", "reason"), UNSUPPORTED)
def test_a_path_that_a_start_tag_does_not_decide_is_refused(path: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason.replace("(", r"\(")):
        parse_split_path(path, {})


def test_a_path_that_is_no_xpath_is_refused() -> None:
    with pytest.raises(BadQuery, match="expected"):
        parse_split_path("//a[", {})
