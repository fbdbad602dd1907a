"""Sources of JSON whose values are payloads."""

from __future__ import annotations

import gzip
import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from broker.cli.publishing import json_reader
from broker.cli.publishing.document_reader import read_all
from broker.cli.publishing.preparation import Preparation, PublishOptions
from broker.cli.publishing.publication import Publication, Refusal
from broker.event.json_payload import xml_to_json

Items = list[Publication | Refusal]


def read(data: bytes | str, **options: Any) -> Items:
    source = data.encode() if isinstance(data, str) else data
    preparation = Preparation(PublishOptions(json_payload=True, **options))
    return list(read_all(("-",), lambda: io.BytesIO(source), preparation))


def shown(items: Items) -> list[str]:
    """Return the JSON of each event, and the place and reason of each refusal."""
    return [
        str(item)
        if isinstance(item, Refusal)
        else xml_to_json(etree.fromstring(item.payload or b""))
        for item in items
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a":1}\n\n[2]\n"x"\nnull', ['{"a":1}', "[2]", '"x"', "null"]),
        ("21.50\n-3e5\ntrue\nfalse", ["21.50", "-3e5", "true", "false"]),
        ('\ufeff{\n "a": [\n\n1\n]}', ['{"a":[1]}']),
        ('{"a":1}{"b":2} [3]', ['{"a":1}', '{"b":2}', "[3]"]),
        ('{\n"a":1}\n{\n"b":2}', ['{"a":1}', '{"b":2}']),
        ('{"a":1}\n{"a"\n{"b":2}', ['{"a":1}', "stdin:2: not JSON: ", '{"b":2}']),
        # A pipe that begins within a line.
        ('"x":1}\n{"b":2}', ["stdin:1: not JSON: Expecting value", '{"b":2}']),
        ('{"a":1,"a":2}\n3', ["stdin:1: an object has the key 'a' twice", "3"]),
        ('[\n1\n"x"]', ["stdin:3: not JSON: Expecting ',' delimiter (column 1)"]),
        ("[1,", ["stdin:1: not JSON: Expecting value (column 4)"]),
        ("[" * 201 + "]" * 201, ["stdin:1: more than 200 values are inside each other"]),
        ('{"type":"FeatureCollection","features":{}}', ['{"type":"FeatureCollection","feat']),
        ("<a/>", ["stdin:1: not JSON: Expecting value (column 1)"]),
        (" \n", []),
    ],
)
def test_each_value_is_an_event(text: str, expected: list[str]) -> None:
    found = shown(read(text))
    assert len(found) == len(expected), found
    assert all(each.startswith(start) for each, start in zip(found, expected, strict=True)), found


def test_each_feature_of_geojson_is_an_event() -> None:
    features = [{"type": "Feature", "id": n, "geometry": None} for n in range(3)]
    collection = {"features": [*features, 7], "type": "FeatureCollection", "crs": {}}
    for text in (json.dumps(collection), json.dumps(collection, indent=1)):
        items = read(gzip.compress(text.encode()))
        assert [json.loads(each) for each in shown(items[:-1])] == features
        assert shown(items[-1:]) == ["stdin:1: feature 4: it is no object"]


def test_the_events_have_the_type_json_or_the_given_one() -> None:
    (item,) = read("[1]")
    assert isinstance(item, Publication)
    assert (str(item.event_type.name), item.event_type.version, item.stream) == (
        *("json", "1.0", "json"),
    )
    (item,) = read("[1]", type=("quakes", "2.0"), stream="quakes.iceland")
    assert isinstance(item, Publication)
    assert (item.event_type.name, item.event_type.version) == ("quakes", "2.0")
    assert item.stream == "quakes.iceland"


def test_a_large_text_is_refused_and_not_read_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_reader, "MAX_JSON", 100)
    (refusal,) = read("[\n" + "1,\n" * 100 + "1]")
    assert "larger than 100 bytes; give large ones as JSON lines" in str(refusal)


def test_bytes_that_are_not_utf_8_are_refused() -> None:
    assert shown(read(b'{"a":"\xff"}\n{"b":1}')) == [
        "stdin:1: not JSON in UTF-8: invalid start byte",
        '{"b":1}',
    ]
    assert "not JSON" in shown(read('{"a":1}'.encode("utf-16")))[0]


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda values: (
        st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=3), values, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=100)
@given(st.lists(JSON, min_size=1, max_size=3), st.sampled_from([None, 1]))
def test_values_come_back_as_they_were(values: list[Any], indent: int | None) -> None:
    if indent is not None:
        # One line would be a whole text.
        values = [[each] for each in values]
    text = "\n".join(json.dumps(each, indent=indent) for each in values)
    assert [json.loads(each) for each in shown(read(text))] == values
