"""Events that an origin node logged again at a later place, after its log was set back."""

from __future__ import annotations

from broker.testing.guarantees.allowances import Allowances
from broker.testing.guarantees.observations import Observations
from broker.testing.guarantees.records import Delivered


def is_logged_again(seen: Observations, event: Delivered, allowed: Allowances) -> bool:
    place = event.place
    return place.origin in allowed.set_back_origins and any(
        other.origin == place.origin and other.mark < place.mark
        for other in seen.places.get(event.key, set())
    )
