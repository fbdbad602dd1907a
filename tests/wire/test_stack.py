from __future__ import annotations

import pytest

from broker.errors import Overloaded
from broker.transport.effects import WritableChanged
from broker.wire.stack import ENVELOPE_BYTES, session_layers


@pytest.mark.parametrize(("window", "largest"), [(4 << 20, 0), (64 << 10, 1 << 20), (8192, 0)])
def test_a_writable_stack_has_room_for_a_message(window: int, largest: int) -> None:
    event = max(window, largest)
    # The largest event may be sent with a header and a record.
    message = bytes(event + ENVELOPE_BYTES // 4)
    for before in (0, event // 2, event, event + ENVELOPE_BYTES // 2 - 64):
        (layer,) = session_layers(1, window, largest)
        core = layer.create_core()
        effects = core.submit([bytes(before)], 0.0)
        assert WritableChanged(False) not in effects
        core.submit([message], 0.0)


def test_sending_on_is_refused_at_the_limit() -> None:
    (layer,) = session_layers(1, 8192)
    core = layer.create_core()
    with pytest.raises(Overloaded):
        for _ in range(100):
            core.submit([bytes(4096)], 0.0)
