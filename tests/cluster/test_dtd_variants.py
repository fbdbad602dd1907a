"""Stored DTD texts of origins, after a restart (T26)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from twisted.logger import capturedLogs

from broker.cluster.types.origin_texts import OriginTexts
from broker.dtd.reference import DtdReference

FIRST, OTHER = "1" * 64, "2" * 64
FLIGHT = DtdReference("flight", "1.0")


def texts_at(path: Path) -> OriginTexts:
    def write(save: Callable[[bytes], object], data: bytes) -> None:
        save(data)

    return OriginTexts(path, write, sync=False)


def flight(content_hash: str) -> DtdReference:
    return DtdReference("flight", "1.0", content_hash)


def test_stored_texts_are_loaded_after_a_restart(tmp_path: Path) -> None:
    texts = texts_at(tmp_path / "origins.json")
    assert texts.record_text("a", flight(FIRST), counts=True)
    assert texts.record_text("b", flight(OTHER), counts=False)
    assert not texts.record_text("b", flight(OTHER), counts=False)
    again = texts_at(tmp_path / "origins.json")
    assert (again.variants_of("a"), again.variants_of("b")) == ({}, {FLIGHT: flight(OTHER)})
    assert again.origins_by_text() == {flight(FIRST): ["a"], flight(OTHER): ["b"]}


def test_the_file_of_the_previous_version_is_read(tmp_path: Path) -> None:
    path = tmp_path / "origins.json"
    path.write_text(json.dumps({"b": {"flight 1.0": OTHER}}))
    texts = texts_at(path)
    assert texts.variants_of("b") == {FLIGHT: flight(OTHER)}
    texts.record_text("a", flight(FIRST), counts=True)
    assert texts_at(path).origins_by_text() == {flight(FIRST): ["a"], flight(OTHER): ["b"]}


@pytest.mark.parametrize("content", [b"{", b'{"b": 7}', b"no hash\n{}", b""])
def test_a_damaged_file_is_logged_and_ignored(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "origins.json"
    path.write_bytes(content)
    with capturedLogs() as captured:
        texts = texts_at(path)
    assert not texts and "can not be read" in captured[0]["log_format"]
