"""The last element of a header: liveness, validation and the event's own time."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.event.envelope import MAX_EVENT_TIME, Header, Liveness, SecurityLevel, Validation
from broker.event.event_id import EventId
from broker.log.logged_event import (
    encode_header,
    header_from_fields,
    state_of,
    with_liveness_only,
)

_USUAL = (Validation.DESCRIBED, None)
_HEADER = Header(EventId("c", 1, 2, 3), "s", "t", "1.0", SecurityLevel.MED, Liveness.LIVE)


@given(
    st.sampled_from(Liveness),
    st.sampled_from(Validation),
    st.none() | st.integers(0, MAX_EVENT_TIME),
)
def test_a_header_keeps_its_state(
    liveness: Liveness, validation: Validation, time: int | None
) -> None:
    header = _HEADER._replace(liveness=liveness, validation=validation, time=time)
    record = encode_header(header)
    assert header_from_fields(msgpack.unpackb(record)) == header
    assert state_of(record) == (validation, time)
    plain = encode_header(_HEADER._replace(liveness=liveness))
    assert with_liveness_only(record) == plain
    assert (record == plain) == ((validation, time) == _USUAL)


@pytest.mark.parametrize(
    "state",
    [
        *(
            "",
            "live ",
            "live 01",
            "live -1",
            "live +1",
            "live 1 ",
            "live  1",
            "live 1.0",
            "live 1e3",
        ),
        *("1", "live 1 2", "live 1 marked", "live described 1", "gone 1", "live \u0661", "live x"),
        *(f"live {MAX_EVENT_TIME + 1}", f"live {'9' * 100_000}", "live \u00b2", "live 1_0"),
        *(None, 5, True, ["live"], b"live 1", {"live": 1}),
    ],
)
def test_a_state_of_another_form_is_refused(state: Any) -> None:
    fields = [*msgpack.unpackb(encode_header(_HEADER))[:-1], state]
    with pytest.raises((KeyError, TypeError)):
        header_from_fields(fields)
    record = msgpack.packb(fields)
    assert state_of(record) == _USUAL
    assert with_liveness_only(record) == record


@pytest.mark.parametrize("time", [-1, MAX_EVENT_TIME + 1])
def test_a_time_out_of_range_is_not_encoded(time: int) -> None:
    with pytest.raises(ValueError, match="is not from 0 to"):
        encode_header(_HEADER._replace(time=time))
