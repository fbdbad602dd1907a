"""Registry of limits, with the present use of each and how often it was reached."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs


@attrs.define(eq=False)
class Limit:
    """One bounded resource; its owner calls `count_reached` whenever the bound applies."""

    name: str
    """Lower-case words with hyphens: a label of metrics."""
    per: str
    """Holder of a share: "node", "account", "client", "address" or "connection"."""
    setting: str
    """Key of the configuration, or "" for a constant."""
    find_bound: Callable[[], float]
    find_used: Callable[[], float]
    """Returns the use of the holder that is nearest to its bound."""
    reached: int = 0
    """Times that something was refused, dropped, delayed or replaced at the bound."""

    def count_reached(self, times: int = 1) -> None:
        self.reached += times


class LimitRegistry:
    """The limits of one node, for `xmlbroker status` and metrics."""

    def __init__(self) -> None:
        self._limits: dict[str, Limit] = {}

    def add(
        self,
        name: str,
        *,
        bound: Callable[[], float],
        used: Callable[[], float],
        per: str = "node",
        setting: str = "",
    ) -> Limit:
        """Register a limit. The two callables run on request only, and should be cheap.

        Raises `ValueError` for a name that is registered already.
        """
        if name in self._limits:
            raise ValueError(f"the limit {name!r} is registered already")
        limit = self._limits[name] = Limit(name, per, setting, bound, used)
        return limit

    def __iter__(self) -> Iterator[Limit]:
        return iter(self._limits.values())

    def snapshot(self) -> list[dict[str, Any]]:
        return [
            {
                "name": limit.name,
                "per": limit.per,
                "setting": limit.setting,
                "used": limit.find_used(),
                "bound": limit.find_bound(),
                "reached": limit.reached,
            }
            for limit in self
        ]
