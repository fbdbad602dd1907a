"""Report of a derivation: guesses, losses, and models that were widened."""

from __future__ import annotations

from broker.dtd.derivation.driver import Derivation


def report_lines(derivation: Derivation, widened: tuple[str, ...]) -> list[str]:
    lines = [*derivation.head]
    lines += [
        f"{derivation.table.qualify(each.name)}: {each.note}"
        for each in derivation.elements
        if each.note
    ]
    lines += [f"{name}: its content model was widened to fit a node's limits" for name in widened]
    return lines
