from __future__ import annotations

from pathlib import Path

import pytest

from broker.archiver import messages
from broker.log.commit import Retention
from broker.log.log_file import LogFile
from broker.recovery.archive_access import Coverage
from tests.child.started_child import StartedChild

pytestmark = pytest.mark.system


def test_questions_are_answered_while_the_archive_is_unreadable(tmp_path: Path) -> None:
    LogFile(tmp_path / "log", Retention(), sync=False).crash()
    archive = tmp_path / "archive"
    archive.mkdir()
    (archive / "archive.json").write_text('{"format": "another"}')
    command = ["broker.archiver", "--log", str(tmp_path / "log"), "--archive", str(archive)]
    with StartedChild(messages.CODEC, *command, "--every", "0.1") as archiver:
        problem = archiver.receive()
        assert isinstance(problem, messages.Report)
        assert "not an archive of the format" in problem.problem
        archiver.send(messages.AskCoverage(), messages.AskDurable(1, "c", "d"), messages.Flush())
        # The last report is due to `Flush`.
        assert [archiver.receive() for _ in range(5)] == [
            *(problem, messages.FoundCoverage(Coverage())),
            *(problem, messages.FoundDurable(1, None)),
            problem,
        ]
        archiver.send(messages.End())
        assert archiver.is_closed()
