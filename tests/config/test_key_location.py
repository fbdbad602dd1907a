from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.config.key_location import KeyPath, Location, locate_keys


@pytest.mark.parametrize(
    ("text", "path", "spot"),
    [
        ("a = 1\nb = 2\n", ("b",), (2, 1)),
        ("[t]\n\n  key = 1\n", ("t", "key"), (3, 3)),
        ("[t]\nkey = 1\n", ("t",), (1, 2)),
        ("[outer.inner]\nkey = 1", ("outer", "inner", "key"), (2, 1)),
        ("[ outer . inner ]\nkey = 1", ("outer",), (1, 2)),
        ("[t]\nsub.key = 1", ("t", "sub", "key"), (2, 1)),
        ("[t]\nsub.key = 1", ("t", "sub"), (2, 1)),
        ('[streams."asdi.>"]\nx = 1', ("streams", "asdi.>"), (1, 2)),
        ('[streams."asdi.>"]\nx = 1', ("streams", "asdi.>", "x"), (2, 1)),
        ("'single.quoted' = 1", ("single.quoted",), (1, 1)),
        ('"with \\" quote and \\u00e4" = 1', ('with " quote and ä',), (1, 1)),
        ("# a = 1\na = 2 # not a = 3\n", ("a",), (2, 1)),
        ("a = '# no comment'\nb = 1", ("b",), (2, 1)),
        ("a = [\n  1, # one\n  2,\n]\nb = 1", ("b",), (5, 1)),
        ("a = [\n  1, # one, [\n  2,\n]\nb = 1", ("a", 1), (3, 3)),
        ("a = [[1, 2], [\n3]]", ("a", 1, 0), (2, 1)),
        ('a = """\nb = 1\n"""\nb = 2', ("b",), (4, 1)),
        ("a = '''\nb = 1\n'''\nb = 2", ("b",), (4, 1)),
        ('a = """"quoted""""\nb = 2', ("b",), (2, 1)),
        ('a = """\\"""\n"""\nb = 2', ("b",), (3, 1)),
        ("a = ''\nb = \"\"\nc = 1", ("c",), (3, 1)),
        ("a = { x = 1, y = { z = [2] } }\nb = 1", ("a", "y", "z"), (1, 20)),
        ("a = { x = '}', y = 2 }\nb = 1", ("b",), (2, 1)),
        ("[[a]]\nx = 1\n[[a]]\nx = 2\n[a.b]\ny = 3", ("a", 1, "x"), (4, 1)),
        ("[[a]]\nx = 1\n[[a]]\nx = 2\n[a.b]\ny = 3", ("a", 1, "b", "y"), (6, 1)),
        ("d = 1979-05-27 07:32:00\ne = -1.5e3\n", ("e",), (2, 1)),
        ("a = 1\r\nb = 2\r\n", ("b",), (2, 1)),
    ],
)
def test_a_key_is_found_where_it_stands(text: str, path: KeyPath, spot: Location) -> None:
    tomllib.loads(text)
    assert locate_keys(text)[path] == spot


def _quoted(key: str) -> str:
    return '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'


KEY = st.one_of(
    st.from_regex(r"[A-Za-z0-9_-]{1,6}", fullmatch=True),
    st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=6),
)
SCALAR = st.one_of(
    st.integers(-99, 99).map(str),
    st.booleans().map(lambda value: str(value).lower()),
    st.sampled_from(['"[x]"', "'#'", '"\\"="', '"""\na = "1"\n"""', "''", "1979-05-27"]),
)
VALUE = st.recursive(
    SCALAR,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda each: "[\n" + " , # ]\n".join(each) + "\n]"),
        st.dictionaries(KEY.map(_quoted), inner, max_size=3).map(
            lambda each: "{" + ", ".join(f"{k} = {v}" for k, v in each.items()) + "}"
        ),
    ),
    max_leaves=6,
)


def _paths(value: Any, path: KeyPath = ()) -> list[KeyPath]:
    inner: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [path, *(each for key, below in inner for each in _paths(below, (*path, key)))]


@settings(max_examples=40)
@given(st.dictionaries(KEY, st.dictionaries(KEY, VALUE, max_size=4), max_size=4))
def test_every_key_that_the_parser_finds_has_a_place(tables: dict[str, dict[str, str]]) -> None:
    text = ""
    for name, table in tables.items():
        text += f"[{_quoted(name)}] # [x]\n"
        for key, value in table.items():
            text += f"{_quoted(key)} = {value}\n"
    paths = [path for path in _paths(tomllib.loads(text)) if path]
    spots = locate_keys(text)
    assert set(spots) == set(paths)
    lines = text.split("\n")
    for path, (line, column) in spots.items():
        if isinstance(path[-1], str):
            assert lines[line - 1][column - 1 :].startswith(_quoted(path[-1]))
