from __future__ import annotations

import os
import resource

from benchmarks.harness.usage import cpu_seconds, memory


def test_processor_time_is_that_of_all_threads() -> None:
    spent = resource.getrusage(resource.RUSAGE_SELF)
    seconds = cpu_seconds(os.getpid())
    assert abs(seconds - spent.ru_utime - spent.ru_stime) < 1.0


def test_allocated_memory_counts_as_resident_and_anonymous() -> None:
    before = memory(os.getpid())
    held = bytearray(os.urandom(1)) * (64 << 20)
    after = memory(os.getpid())
    assert after.resident - before.resident > 48 << 20
    assert after.anonymous - before.anonymous > 48 << 20
    assert after.resident >= after.anonymous
    del held


def test_even_a_short_moment_counts() -> None:
    before = cpu_seconds(os.getpid())
    assert sum(range(1000)) > 0
    assert cpu_seconds(os.getpid()) > before
