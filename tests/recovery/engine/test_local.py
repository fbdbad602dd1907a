"""The pure-Python engine against what is right by looking at each event."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.recovery.engine.local import LocalEngine
from tests.recovery.answers import answers, compare
from tests.recovery.world import CATALOGUE, archive_world, make_world, some_requests
from tests.seeds import seeds


@pytest.mark.parametrize("seed", seeds(8, 20))
def test_each_request_gets_what_it_is_to_get(seed: int, tmp_path: Path) -> None:
    world = make_world(seed)
    archive = archive_world(world, str(tmp_path / "archive"), seed)
    requests = some_requests(world, seed, 40)
    engine = LocalEngine(archive, CATALOGUE)
    got = answers(engine, requests, tmp_path / "spool")
    for request, answer in zip(requests, got, strict=True):
        compare(world, request, answer)
