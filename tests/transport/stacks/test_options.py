from __future__ import annotations

import attrs
import pytest

from broker.errors import ConfigurationError
from broker.transport.stacks import read_options


@attrs.frozen(kw_only=True)
class Options:
    parents: int
    pause: float = 0.5
    ordered: bool = False
    label: str = "none"


def test_options_fill_the_fields_and_leave_the_defaults() -> None:
    assert read_options("dcp", Options, {"parents": 2}) == Options(parents=2)
    given: dict[str, object] = {"parents": 2, "pause": 1, "ordered": True, "label": "x"}
    assert read_options("dcp", Options, given) == Options(
        parents=2, pause=1.0, ordered=True, label="x"
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "stack dcp: parents is missing"),
        (
            {"parents": 2, "parent": 1},
            "stack dcp: parent is unknown; known here: label, ordered, parents, pause",
        ),
        ({"parents": 2.5}, "stack dcp: parents must be a whole number, found 2.5"),
        ({"parents": True}, "stack dcp: parents must be a whole number, found True"),
        ({"parents": 1, "pause": "1s"}, "stack dcp: pause must be a number, found '1s'"),
        ({"parents": 1, "pause": False}, "stack dcp: pause must be a number, found False"),
        ({"parents": 1, "ordered": 1}, "stack dcp: ordered must be true or false, found 1"),
        ({"parents": 1, "label": 1}, "stack dcp: label must be a text, found 1"),
    ],
)
def test_an_invalid_option_is_refused_with_stack_and_name(
    options: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_options("dcp", Options, options)
    assert str(caught.value) == sentence
