"""An archiver with an unreadable archive still answers its node."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from broker.archiver import protocol
from broker.archiver.maintenance_rules import NO_MAINTENANCE
from broker.log.commit import Retention
from broker.log.log_file import LogFile
from broker.recovery.archive_access import Coverage

pytestmark = pytest.mark.system


def test_questions_are_answered_while_the_archive_is_unreadable(tmp_path: Path) -> None:
    LogFile(tmp_path / "log", Retention(), sync=False).crash()
    archive = tmp_path / "archive"
    archive.mkdir()
    (archive / "archive.json").write_text('{"format": "another"}')
    command = [sys.executable, "-m", "broker.archiver", "--log", str(tmp_path / "log")]
    with subprocess.Popen(
        [*command, "--archive", str(archive), "--every", "0.1", "--care", NO_MAINTENANCE.encode()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        problem = protocol.decode_archiver_message(process.stdout.readline())
        assert isinstance(problem, protocol.Report)
        assert "not an archive of the format" in problem.problem
        for message in (protocol.ASK_COVERAGE, protocol.AskDurable(1, "c", "d"), protocol.Flush(2)):
            process.stdin.write(protocol.encode_node_message(message))
        process.stdin.flush()
        messages = [protocol.decode_archiver_message(process.stdout.readline()) for _ in range(5)]
        process.stdin.write(protocol.encode_node_message(protocol.End()))
    assert Coverage() in messages
    assert protocol.FoundDurable(1, "", None) in messages
    assert any(isinstance(each, protocol.Report) and each.flushed == (2,) for each in messages)
