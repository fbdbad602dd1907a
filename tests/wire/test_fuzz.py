"""Mutated bytes of every codec are read, or refused by an error with a code."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path
from random import Random

import pytest

from broker.errors import BrokerError
from tests.seeds import further_cases
from tests.wire.codecs import CODECS, inputs

#: Processor seconds of all codecs together, in a run of the suite.
BUDGET = 4.0
SOAK_BUDGET = 300.0
#: Bytes that one input, of some KiB, may make a codec allocate.
MOST_ALLOCATED = 8 << 20
#: A budget of time alone could leave a slow codec without inputs.
LEAST_INPUTS = 200

CASES = [
    *((name, BUDGET / len(CODECS), 0) for name in CODECS),
    *further_cases(*((name, SOAK_BUDGET / len(CODECS), 1) for name in CODECS)),
]


@pytest.mark.parametrize(("name", "budget", "seed"), CASES)
def test_mutated_bytes_are_read_or_refused(name: str, budget: float, seed: int) -> None:
    decode, sample = CODECS[name]
    end, count, read = time.process_time() + budget, 0, 0
    tracemalloc.start()
    try:
        for data in inputs(sample, Random(f"{name} {seed}")):
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            try:
                decode(data)
                read += 1
            except BrokerError as error:
                assert error.code
            except Exception as error:
                pytest.fail(f"{name}: {type(error).__name__}: {error}: {data.hex()[:4000]}")
            _, peak = tracemalloc.get_traced_memory()
            assert peak - before < MOST_ALLOCATED, data.hex()[:4000]
            count += 1
            if count >= LEAST_INPUTS and time.process_time() >= end:
                break
    finally:
        tracemalloc.stop()
    # Else the samples would be of another format.
    assert read


def test_every_codec_of_messages_is_fuzzed() -> None:
    root = Path(__file__).resolve().parents[2]
    found = {
        str(path.relative_to(root))
        for folder in ("broker", "plugins")
        for path in (root / folder).rglob("*.py")
        if "= Codec[" in path.read_text()
    }
    assert found == {
        "broker/archiver/messages.py",
        "broker/child/input_report.py",
        "broker/cluster/messages.py",
        "broker/replay/replayer_messages.py",
        "broker/wire/messages.py",
    }
