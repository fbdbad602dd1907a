"""Every variant keeps the five properties over each fan-out (RCM R33, R49)."""

from __future__ import annotations

from collections import deque

import pytest

from broker.testing.order.checker import check
from broker.testing.order.fan_out import FAN_OUTS, SETTINGS
from broker.testing.order.simulation import Simulation
from broker.testing.order.violation import Property
from broker.transport.message import Message
from broker.transport.multicast import sharing_core
from broker.transport.multicast.incoming import Incoming
from broker.transport.multicast.sharing_core import SharingCore
from broker.transport.multicast.wire import LinkView
from broker.transport.order import VARIANTS
from tests.seeds import seeds

BATCH = 5
#: Seeds within which the checker finds each mutant.
MOST_SEEDS = 100


@pytest.mark.parametrize("first", seeds(1, 200))
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("fan_out", ["tree", "group"])
def test_a_variant_keeps_the_properties_over_a_fan_out(
    fan_out: str, variant: str, first: int
) -> None:
    for seed in range(first * BATCH, (first + 1) * BATCH):
        settings, make = SETTINGS[fan_out], FAN_OUTS[fan_out]
        run = Simulation(VARIANTS[variant], seed, settings=settings, fan_out=make).execute()
        violations = check(run)
        assert not violations, "\n".join([f"{variant}, seed {seed}:", *map(str, violations)])


def test_the_schedules_share_and_repair_bodies() -> None:
    cores: list[SharingCore] = []

    def make(name: str, key: bytes) -> SharingCore:
        tree = FAN_OUTS["tree"]
        assert tree is not None
        cores.append(tree(name, key))
        return cores[-1]

    for seed in range(3):
        Simulation(VARIANTS["logical"], seed, fan_out=make).execute()
    assert sum(core.references for core in cores) > 100
    assert sum(core.repairs for core in cores) > 10


class _Eager(Incoming):
    """Passes a message on before an earlier one whose body is missing."""

    def take_ready(self) -> list[Message]:
        kept = [each for each in self._waiting if each.message is None]
        self._waiting = deque(each for each in self._waiting if each.message is not None)
        ready = super().take_ready()
        self._waiting.extendleft(reversed(kept))
        return ready


class _Open(Incoming):
    """Passes messages of a disconnected peer on."""

    def disconnect(self) -> None:
        pass


class _Patient(Incoming):
    """Asks for no repair."""

    def take_overdue(self, now: float) -> list[int]:
        super().take_overdue(now)
        return []


class _Forgetful(Incoming):
    """Does not know an earlier process from a later one."""

    def accept_view(self, view: LinkView) -> int:
        self.key, self._is_open = view.key, True
        self.connected = frozenset(view.connected)
        return 0


@pytest.mark.parametrize(
    ("mutant", "property", "first"),
    [
        (_Eager, Property.ROBUSTNESS, 1),
        (_Open, Property.AWARENESS, 17),
        (_Patient, Property.RELIABILITY, 3),
        (_Forgetful, Property.AWARENESS, 2),
    ],
)
def test_the_checker_finds_a_faulty_fan_out(
    mutant: type[Incoming], property: Property, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`first` is the first seed that finds it, so that the test is short."""
    monkeypatch.setattr(sharing_core, "Incoming", mutant)
    for seed in range(first, MOST_SEEDS):
        settings, make = SETTINGS["tree"], FAN_OUTS["tree"]
        simulation = Simulation(VARIANTS["logical"], seed, settings=settings, fan_out=make)
        try:
            violations = check(simulation.execute())
        except AssertionError:
            # A site has refused a packet of the mutant.
            continue
        if any(each.property is property for each in violations):
            return
    pytest.fail(f"not found within {MOST_SEEDS} seeds")
