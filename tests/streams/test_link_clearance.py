"""A stack does not start if its settings would send events of the level `high` in clear text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

from broker.config import Settings
from broker.config.stacks import StackInstance
from broker.errors import ConfigurationError
from broker.event.envelope import SecurityLevel
from broker.transport.stacks import GroupAddress
from tests.streams.link_ends import End, Wire

HIGH = StackInstance("radar", clearance=SecurityLevel.HIGH)
CERTIFIED = attrs.evolve(
    Settings(), network=attrs.evolve(Settings().network, certificate=Path("certificate"))
)


@pytest.mark.parametrize(
    ("listen", "level", "settings", "is_allowed"),
    [
        ("192.0.2.1:9000", SecurityLevel.MED, Settings(), True),
        ("192.0.2.1:9000", SecurityLevel.HIGH, Settings(), False),
        ("127.0.0.1:9000", SecurityLevel.HIGH, Settings(), True),
        ("192.0.2.1:9000", SecurityLevel.HIGH, CERTIFIED, True),
    ],
)
def test_clearance_of_links_fits_their_encryption(
    listen: str, level: SecurityLevel, settings: Settings, is_allowed: bool
) -> None:
    end: Any = End(Wire(), "a", settings=settings)
    stack = StackInstance("radar", clearance=level)
    if is_allowed:
        assert end.opener.open(stack, listen, end)
        return
    with pytest.raises(ConfigurationError, match="stacks.radar.clearance .* without encryption"):
        end.opener.open(stack, listen, end)
    with pytest.raises(ConfigurationError, match="without encryption"):
        end.opener.open_to_clients(stack, listen, end)


def test_high_events_leave_in_no_group() -> None:
    end: Any = End(Wire(), "a", settings=CERTIFIED)
    with pytest.raises(ConfigurationError, match="239.1.2.3:9000 without encryption"):
        end.opener.open_group(HIGH, GroupAddress("239.1.2.3", 9000, "eth0"), print)
