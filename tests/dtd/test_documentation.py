"""docs/dtds.md agrees with the DTDs (M40)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from twisted.internet.task import Clock

from broker.dtd.cache import CacheLimits, DtdCache
from broker.dtd.catalogue import Catalogue
from broker.dtd.catalogue_source import CatalogueSource
from broker.dtd.dtd import Dtd
from broker.dtd.fetch_hint import FetchHint
from broker.dtd.interfaces import IDtd
from broker.dtd.reference import DtdReference

Shipped = Callable[[str, str], Dtd]
Event = Callable[..., bytes]
Parse = Callable[[bytes], etree._Element]

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "dtds.md").read_text(encoding="utf-8")
MANY = 1_000
WORDS = {(1, 1): "1", (0, 1): "0 or 1", (0, MANY): "0 or more"}


def counts(model: Any) -> dict[str, tuple[int, int]]:
    """Return the least and greatest number of each child."""
    if model is None or model.type == "pcdata":
        return {}
    if model.type == "element":
        found = {model.name: (1, 1)}
    else:
        left, right = counts(model.left), counts(model.right)
        found = {}
        for name in (*left, *right):
            (least, most), (least2, most2) = left.get(name, (0, 0)), right.get(name, (0, 0))
            if model.type == "seq":
                found[name] = (least + least2, min(MANY, most + most2))
            else:
                found[name] = (min(least, least2), max(most, most2))
    if model.occur in ("opt", "mult"):
        found = {name: (0, most) for name, (_, most) in found.items()}
    if model.occur in ("mult", "plus"):
        found = {name: (least, MANY) for name, (least, _) in found.items()}
    return found


def declared(dtd: Dtd) -> dict[str, dict[str, str]]:
    parsed: Any = etree.DTD(BytesIO(dtd.text))
    return {
        element.name: {name: WORDS[often] for name, often in counts(element.content).items()}
        for element in parsed.iterelements()
    }


def documented() -> dict[str, dict[str, str]]:
    table = PAGE.split("| element | allowed nested elements |")[1].split("\n\n")[0]
    found: dict[str, dict[str, str]] = defaultdict(dict)
    element = ""
    for row in table.splitlines()[2:]:
        name, child, often, _purpose = (cell.strip() for cell in row.strip("|").split("|", 3))
        element = name or element
        found[element].update({} if child == "none" else {child: often})
    return dict(found)


@pytest.mark.parametrize(("version", "column"), [("1.0", 0), ("1.1", 1)])
def test_the_table_of_the_envelope_is_the_dtd(version: str, column: int, shipped: Shipped) -> None:
    table = {
        element: {child: (often.split("; ") * 2)[column] for child, often in children.items()}
        for element, children in documented().items()
    }
    assert table == declared(shipped("event", version))


def test_the_table_has_the_attributes_and_their_defaults(shipped: Shipped) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("| EventType |"))
    text = shipped("event", "1.0").text.decode()
    for name, values, default in re.findall(r"(\w+) \(([\w|]+)\) \"(\w+)\"", text):
        assert f"`{name}` ({values.replace('|', ', ')}; default {default})" in row


def test_the_types_listed_are_those_of_the_catalogue(catalogue: Catalogue) -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\d., ]+) \|", PAGE, re.MULTILINE)
    listed = {DtdReference(name, each) for name, versions in rows for each in versions.split(", ")}
    assert listed == set(catalogue.references())


def test_the_driver_of_ten_lines_works_in_a_folder_of_the_users_own(
    catalogue: Catalogue, event: Event, parse: Parse, tmp_path: Path
) -> None:
    driver = PAGE.split("```dtd\n")[1].split("```")[0]
    assert len(driver.splitlines()) == 10
    (tmp_path / "weather-1.0.dtd").write_text(driver)
    entries = PAGE.split("## New types")[1].split("```xml\n")[1].split("```")[0]
    (tmp_path / "catalog.xml").write_text(entries)
    source = CatalogueSource(Catalogue.load(tmp_path))
    dtds = DtdCache(catalogue, [source], CacheLimits(), Clock())
    found: list[IDtd] = []
    dtds.lookup(DtdReference("weather", "1.0"), FetchHint()).addCallback(found.append)
    (weather,) = found
    good = parse(event(b'<weather station="KBOS"><wind>12</wind></weather>', "weather"))
    assert weather.check(good) is None
    weather.apply_defaults(good)
    assert good.xpath("string(weather/wind/@unit)") == "kt"
    assert weather.check(parse(event(b"<weather/>", "weather"))) is not None
