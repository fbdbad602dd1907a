from __future__ import annotations

import attrs
import pytest

from broker.config import EventTypeSettings, Settings, StreamSettings
from broker.config.settings import TypeSettings
from broker.event.stream import StreamPattern
from broker.ingest.validation_policy import ValidationPolicy


def policy(node: str, types: dict[str, str], streams: dict[str, str]) -> ValidationPolicy:
    return ValidationPolicy(
        attrs.evolve(
            Settings(),
            types=TypeSettings(node),
            event_types=tuple(EventTypeSettings(name, undescribed=v) for name, v in types.items()),
            streams=tuple(
                StreamSettings(StreamPattern.parse(text), undescribed=v)
                for text, v in streams.items()
            ),
        )
    )


@pytest.mark.parametrize(
    ("node", "types", "streams", "accepted"),
    [
        ("refuse", {}, {}, False),
        ("accept", {}, {}, True),
        ("refuse", {"Nas*": "accept"}, {}, True),
        ("accept", {"Nas*": "refuse"}, {}, False),
        ("accept", {"NasFlight": "refuse"}, {}, False),
        ("refuse", {"Nas*": "accept", "NasF*": "refuse"}, {}, False),
        ("refuse", {"NasFl*": "refuse", "NasFlight": "accept"}, {}, True),
        ("refuse", {"Nas*": "default"}, {}, False),
        ("accept", {"Other": "refuse"}, {}, True),
        ("refuse", {}, {"swim.>": "accept"}, True),
        ("refuse", {}, {"swim.>": "accept", "swim.fdps": "refuse"}, False),
        ("refuse", {"Nas*": "accept"}, {"swim.>": "refuse"}, False),
        ("accept", {"Nas*": "refuse"}, {"swim.>": "default"}, False),
        ("refuse", {}, {"other.>": "accept"}, False),
    ],
)
def test_the_most_specific_setting_counts(
    node: str, types: dict[str, str], streams: dict[str, str], *, accepted: bool
) -> None:
    made = policy(node, types, streams)
    assert made.accepts_undescribed("NasFlight", "swim.fdps") is accepted
    # It may only look a type up in vain, never refuse one that a stream accepts.
    assert made.may_accept_undescribed("NasFlight") or not accepted
    assert made.may_accept_any or not accepted


def test_only_the_named_types_are_lenient() -> None:
    tables = (EventTypeSettings("VO*", on_invalid="mark"), EventTypeSettings("VOX"))
    made = ValidationPolicy(attrs.evolve(Settings(), event_types=tables))
    assert made.may_mark
    assert [made.marks_invalid(name) for name in ("VOEvent", "VOX", "flight")] == [
        *(True, False, False),
    ]
    assert not ValidationPolicy(Settings()).may_mark
