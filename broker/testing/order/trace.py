"""Short traces of seeds that violate a property: few actions, and what happened (A10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from broker.testing.order.checker import check
from broker.testing.order.run import Run
from broker.testing.order.schedule import Timed
from broker.testing.order.simulation import Simulation
from broker.testing.order.violation import Property, Violation

#: Lines of a trace before and after the violation.
_BEFORE, _AFTER = 60, 5


class Trace(NamedTuple):
    """The shortest schedule that was found, and its run."""

    actions: list[Timed]
    run: Run
    violations: list[Violation]

    def lines(self) -> Iterator[str]:
        """Yield the schedule, and what happened around the first violation."""
        yield from (f"{time:9.3f} {action}" for time, action in self.actions)
        first = self.violations[0]
        yield str(first)
        happened = sorted(_happened(self.run), key=lambda entry: entry[0])
        place = sum(time <= first.time for time, _ in happened)
        for time, text in happened[max(0, place - _BEFORE) : place + _AFTER]:
            yield f"{time:9.3f} {text}"


def shrink(simulate: Callable[[Sequence[Timed] | None], Simulation]) -> Trace | None:
    """Drop actions of a schedule as long as it violates the same property.

    `simulate` gets the actions, or None for those of the seed. Return None if nothing is violated.
    """
    simulation = simulate(None)
    run = simulation.execute()
    violations = check(run)
    if not violations:
        return None
    best = Trace(simulation.schedule, run, violations)
    broken = violations[0].property
    size = len(best.actions)
    while size:
        begin = 0
        while begin < len(best.actions):
            fewer = best.actions[:begin] + best.actions[begin + size :]
            shorter = _try_actions(simulate, fewer, broken)
            best = shorter or best
            begin += 0 if shorter else size
        size //= 2
    return best


def _try_actions(
    simulate: Callable[[Sequence[Timed] | None], Simulation],
    actions: list[Timed],
    broken: Property,
) -> Trace | None:
    run = simulate(actions).execute()
    violations = [each for each in check(run) if each.property is broken]
    return Trace(actions, run, violations) if violations else None


def _happened(run: Run) -> Iterator[tuple[float, str]]:
    for time, (site, incarnation), is_start in run.lives:
        yield time, f"{site}/{incarnation} {'starts' if is_start else 'ends'}"
    for time, sender, receiver, is_up in run.paths:
        yield time, f"{sender} -> {receiver} is {'repaired' if is_up else 'silent'}"
    for time, one, other in run.breaks:
        yield time, f"{one} - {other} breaks"
    for begin, _, sender, receiver in run.slow:
        yield begin, f"{sender} -> {receiver} changes its delay"
    for status in run.statuses:
        state = f"{status.peer} is {status.state.value}"
        yield status.time, f"{status.process[0]}: {state} {status.reason}".rstrip()
    for id, sent in run.sent.items():
        commit = f" after {sent.commit:.3f} s" if sent.commit else ""
        yield sent.time, f"{id.site}: sends {id.incarnation}#{id.number}{commit}"
    for (site, _), deliveries in run.deliveries.items():
        for time, id, stamp, late in deliveries:
            text = f"delivers {id.site} {id.incarnation}#{id.number} at {stamp.time} {stamp.site}"
            yield time, f"{site}: {text}{' late' if late else ''}"
    for (site, _), moves in run.moves.items():
        for moved in moves:
            id, stamp = moved.id, moved.stamp
            yield moved.time, f"{site}: moves {id.site} {id[1]}#{id[2]} to {stamp[0]} {stamp[1]}"
    for time, (site, _), error in run.failures:
        yield time, f"{site}: {error}"
