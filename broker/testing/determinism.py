"""Random bytes and processor times of a simulation, from its seed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from random import Random
from unittest.mock import patch

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from broker.order_certificates.signing_key import SigningKey

_private_key = Ed25519PrivateKey.from_private_bytes
#: Seconds between two readings of the stopwatch. On a busy node, a share of the readings is up to
#: `_LATEST_STEP` apart.
_CLOCK_STEP = 1e-5
_LATE_PERCENT = 2
_LATEST_STEP = 0.02


@contextmanager
def deterministic(seed: int, *, busy: bool = False) -> Iterator[None]:
    """Derive nonces, keys, names of origins and processor times from the seed.

    Matching reads the processor time to end its time slices.
    """
    draw = Random(f"nonces {seed}").randbytes
    draw_key = Random(f"node-keys {seed}").randbytes
    looks = accumulate(_clock_readings(Random(f"busy {seed}") if busy else None))
    with (
        patch("os.urandom", draw),
        patch("secrets.token_bytes", draw),
        patch("secrets.token_hex", lambda size: draw(size).hex()),
        patch.object(SigningKey, "generate", lambda: SigningKey(_private_key(draw_key(32)))),
        patch("time.perf_counter", lambda: next(looks)),
    ):
        yield


def _clock_readings(busy: Random | None) -> Iterator[float]:
    while True:
        late = busy is not None and busy.randrange(100) < _LATE_PERCENT
        yield busy.uniform(0.0, _LATEST_STEP) if busy is not None and late else _CLOCK_STEP
