"""Some tests of a contract, where the whole contract runs in the soak."""

from __future__ import annotations

import unittest

__all__ = ["check_parts"]


def check_parts(case: type[unittest.TestCase], *names: str) -> None:
    """Run the named tests of a case once, each with its first seed."""
    first_seed = type(case.__name__, (case,), {"seeds": range(1)})
    result = unittest.TestResult()
    unittest.TestSuite(map(first_seed, names)).run(result)
    assert result.testsRun == len(names)
    assert not (problems := result.failures + result.errors), "\n".join(
        text for _, text in problems
    )
