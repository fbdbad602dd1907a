"""Trials of mutants: each runs in a fork of a process that has imported everything.

That process has collected the tests, so a mutant costs little more than its tests. A mutant
replaces the code objects of the changed functions. No file changes, so an interrupted run leaves
nothing behind. Tests that start processes do not see the mutant.
"""

from __future__ import annotations

import gc
import importlib
import math
import os
import pickle
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import accumulate, zip_longest
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

import attrs
import pytest
from coverage import Coverage

from tests.mutation.groups import ROOT
from tests.mutation.mutants import Mutant

#: Memory limit of one mutant in bytes; an endless loop may fill a list.
_MOST_MEMORY: Final = 3 << 30
_CO_OPTIMIZED: Final = 1
#: Seconds of tests, measured without a mutant, that are tried: quick tests first, then slow ones.
_MOST_SECONDS_OF_QUICK: Final = 2.0
_MOST_SECONDS_OF_SLOW: Final = 4.0
#: Limit for all tests of a group, with tracing.
_MOST_SECONDS_OF_ALL: Final = 600


@attrs.frozen
class Runs:
    """The tests that run each line, and their durations."""

    seconds: dict[str, float]
    """Processor time."""
    lines: dict[tuple[str, int], set[str]]

    def tests_of(self, mutant: Mutant) -> list[str]:
        """Return tests that run the mutant's statement: quick ones, then slower ones."""
        path = str(mutant.path)
        tests = set().union(*(self.lines.get((path, line), ()) for line in mutant.lines))
        quick = self._startable_within(_MOST_SECONDS_OF_QUICK, sorted(tests, key=self._seconds_of))
        # Alternate between files, as tests of one file often check the same thing.
        files: dict[str, list[str]] = defaultdict(list)
        for test in sorted(tests - {*quick}, key=self._seconds_of):
            files[test.partition("::")[0]].append(test)
        round_robin = [test for round_ in zip_longest(*files.values()) for test in round_ if test]
        return quick + self._startable_within(_MOST_SECONDS_OF_SLOW, round_robin)

    def _startable_within(self, seconds: float, tests: list[str]) -> list[str]:
        spent = accumulate((self.seconds[test] for test in tests), initial=0.0)
        return [test for test, before in zip(tests, spent, strict=False) if before < seconds]

    def _seconds_of(self, test: str) -> tuple[float, str]:
        return self.seconds[test], test

    def limit_of(self, tests: Iterable[str]) -> int:
        """Return the processor seconds after which a mutant of these tests counts as hanging."""
        return math.ceil(5 + 5 * sum(self.seconds.get(test, 1) for test in tests))


class _LineRecorder:
    """Pytest plugin that records the tests that run each line of some files."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = [str(path) for path in paths]
        self._coverage = Coverage(data_file=None, include=self._paths, config_file=False)
        self._seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        begin = time.process_time()
        self._coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._seconds[item.nodeid] = time.process_time() - begin

    def run(self, tests: Callable[[], int]) -> int:
        with self._coverage.collect():
            return tests()

    def runs(self) -> Runs:
        data = self._coverage.get_data()
        lines = {
            (path, line): {*tests} - {""}
            for path in self._paths
            for line, tests in data.contexts_by_lineno(path).items()
        }
        return Runs(self._seconds, lines)


class Trial:
    """The collected tests of a group."""

    def __init__(self, paths: list[Path], tests: tuple[str, ...]) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="xmlbroker-mutation-"))
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(self._folder / "hypothesis")
        os.environ["PYTHONHASHSEED"] = "0"
        # Forking with threads causes a warning; none of these threads holds a lock.
        warnings.simplefilter("ignore", DeprecationWarning)
        if self._pytest(("--collect-only", *tests)):
            raise SystemExit((self._folder / "output").read_text()[-2000:])
        for path in paths:
            importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        self.runs = self._trace(paths, tests)
        self._functions = _functions_of(paths)

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def survives(self, mutant: Mutant, tests: list[str]) -> bool | None:
        """Return whether all tests pass; None if the mutant can not be applied."""
        changes = list(self._changes(mutant))
        if not changes:
            return None
        # A mutant without effect, or with other variables of outer functions.
        if any(new.co_freevars != function.__code__.co_freevars for function, new in changes):
            return None

        def run() -> int:
            for function, new in changes:
                function.__code__ = new
            return self._pytest(("-x", *tests))

        return self._run_forked(run, self.runs.limit_of(tests)) == 0

    def _changes(self, mutant: Mutant) -> Iterator[tuple[FunctionType, CodeType]]:
        path = str(mutant.path)
        old = compile(mutant.path.read_text(), path, "exec", dont_inherit=True)
        try:
            new = compile(mutant.source, path, "exec", dont_inherit=True)
        except SyntaxError:
            return
        for before, after in _differing(old, new):
            for function in self._functions.get((path, before.co_qualname), ()):
                if function.__code__ == before:
                    yield function, after

    def _trace(self, paths: list[Path], tests: tuple[str, ...]) -> Runs:
        recorder = _LineRecorder(paths)
        saved = self._folder / "runs"

        def run() -> int:
            status = recorder.run(lambda: self._pytest(tests, recorder))
            saved.write_bytes(pickle.dumps(recorder.runs()))
            return status

        if self._run_forked(run, _MOST_SECONDS_OF_ALL):
            print((self._folder / "output").read_text()[-4000:])
            raise SystemExit(f"a test fails without any mutant: {' '.join(tests)}")
        runs: Runs = pickle.loads(saved.read_bytes())
        return runs

    def _pytest(self, arguments: tuple[str, ...], *plugins: Any) -> int:
        options = ("-q", "-p", "no:cacheprovider", f"--basetemp={self._folder / 'tests'}")
        output = self._folder / "output"
        with output.open("w") as file, _output_to(file.fileno()):
            return int(pytest.main([*options, *arguments], plugins=list(plugins)))

    def _run_forked(self, run: Callable[[], int], seconds: int) -> int:
        child = os.fork()
        if not child:
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_DATA, (_MOST_MEMORY, _MOST_MEMORY))
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            status = 99
            try:
                status = run()
            finally:
                os._exit(status)
        # A waiting process uses no processor time, so real time is limited, too.
        end = time.monotonic() + 10 * seconds
        pause = 0.005
        while time.monotonic() < end:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return status
            threading.Event().wait(pause)
            pause = min(0.05, pause * 1.2)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        return os.waitpid(child, 0)[1] or 1


class _output_to:
    """Redirect standard output and errors to a file."""

    def __init__(self, file: int) -> None:
        self._file = file

    def __enter__(self) -> None:
        sys.stdout.flush()
        self._saved = (os.dup(1), os.dup(2))
        os.dup2(self._file, 1)
        os.dup2(self._file, 2)

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush()
        for number, saved in enumerate(self._saved, 1):
            os.dup2(saved, number)
            os.close(saved)


def _functions_of(paths: list[Path]) -> dict[tuple[str, str], list[FunctionType]]:
    names = {str(path) for path in paths}
    found: dict[tuple[str, str], list[FunctionType]] = defaultdict(list)
    # Tests freeze earlier objects, which hides them from the collector.
    gc.unfreeze()
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename in names:
            found[each.__code__.co_filename, each.__code__.co_qualname].append(each)
    return found


def _differing(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    if old == new:
        return
    if old.co_flags & _CO_OPTIMIZED:
        yield old, new
        return
    inner = [[each for each in code.co_consts if isinstance(each, CodeType)] for code in (old, new)]
    for before, after in zip(*inner, strict=False):
        yield from _differing(before, after)
