"""The commands of `bring-your-feed.md` run as printed, with made-up and with real files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from shutil import copyfile
from types import MappingProxyType

import pytest
from lxml import etree

from examples.feeds import documents
from tests.system.node_process import ROOT, NodeProcess
from tests.system.shell import Shell

pytestmark = pytest.mark.system

DOCUMENT = ROOT / "docs" / "bring-your-feed.md"
#: Of all commands, in seconds, also on a busy machine.
FIVE_MINUTES = 300.0


def blocks(text: str, language: str) -> str:
    return "".join(re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE))


def read_sections() -> dict[str, tuple[str, list[str]]]:
    """Return commands and output of each section by its heading."""
    found = {}
    for section in DOCUMENT.read_text().split("\n## ")[1:]:
        commands, output, is_command = "", [], False
        for line in blocks(section, "console").splitlines():
            is_command = line.startswith(("$ ", "> ")) or (is_command and line.startswith("  "))
            if is_command:
                commands += line.removeprefix("$ ").removeprefix("> ") + "\n"
            else:
                output.append(line)
        if commands:
            found[section.partition("\n")[0]] = (commands, output)
    return found


SECTIONS = read_sections()


def check_output(expected: list[str], printed: str, section: str) -> None:
    """The expected lines, in which `...` is any text, are among the printed ones in this order."""
    lines = iter(printed.splitlines())
    for line in expected:
        pattern = ".*".join(re.escape(part.strip()) for part in line.split("..."))
        assert any(re.fullmatch(pattern, each) for each in lines), (section, line, printed)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "node", blocks(DOCUMENT.read_text(), "toml")) as running:
        yield running
        assert "Traceback" not in running.log()


@pytest.fixture
def shell(node: NodeProcess, tmp_path: Path) -> Shell:
    return Shell(node, tmp_path)


def run_sections(
    shell: Shell, names: list[str], replaced: Mapping[str, str] = MappingProxyType({})
) -> Iterator[tuple[str, list[str], str]]:
    """Yield each name with expected and printed output; run sections beside each other."""

    def run(name: str) -> str:
        commands = SECTIONS[name][0]
        for old, new in replaced.items():
            commands = commands.replace(old, new)
        return shell.run(commands, FIVE_MINUTES)

    with ThreadPoolExecutor() as pool:
        for name, printed in zip(names, pool.map(run, names), strict=True):
            yield name, SECTIONS[name][1], printed


def test_each_command_gives_the_printed_output(shell: Shell) -> None:
    first, *others = SECTIONS
    assert len(others) == 7
    for name, expected, printed in run_sections(shell, [first]):
        check_output(expected, printed, name)
    for name, expected, printed in run_sections(shell, others):
        check_output(expected, printed, name)


#: Parts of queries that select made-up values.
REAL_QUERIES = {"> 30": "> 10", "> 480": "> 400", '= "Extreme"': "", '"Birch"': '""'}


def write_real_feeds(data: Path, folder: Path) -> None:
    """Write real files where the commands read made-up ones."""
    for name in ("cap", "iwxxm", "tfms"):
        (folder / name).mkdir(parents=True)
    copyfile(data / "cap-google" / "cap12.xsd", folder / "cap.xsd")
    schema = etree.XMLSchema(etree.parse(folder / "cap.xsd"))
    alerts = []
    for path in sorted((data / "cap-google").glob("*.cap")):
        try:
            root = etree.parse(path, etree.XMLParser(resolve_entities=False)).getroot()
        except etree.XMLSyntaxError:
            continue
        # No schema for signatures is given.
        is_signed = root.find("{*}Signature") is not None
        if not root.getroottree().docinfo.internalDTD and schema.validate(root) and not is_signed:
            alerts.append(etree.tostring(root, encoding="unicode"))
            copyfile(path, folder / "cap" / path.name)
    assert len(alerts) >= 5
    (folder / "cap.atom").write_text(documents.alert_feed(alerts))
    # Messages of one version, with several prefixes.
    for number, path in enumerate(sorted((data / "iwxxm-fmi").glob("*.xml"))):
        if b'"http://icao.int/iwxxm/3.0"' in path.read_bytes():
            copyfile(path, folder / "iwxxm" / f"{number:02}.xml")
    assert len(list((folder / "iwxxm").iterdir())) >= 5
    copyfile(data / "faa-swim-race" / "tfmDataService.xml", folder / "tfms" / "0.xml")
    (folder / "siri.xml").write_text(documents.vehicles(Random(2), 40))


def test_the_commands_take_real_files(shell: Shell, tmp_path: Path, shared_data: Path) -> None:
    write_real_feeds(shared_data, tmp_path / "feeds")
    names = ["A DTD from samples", "Collections", "A DTD from an XML Schema"]
    found = {}
    for name, _, printed in run_sections(shell, names, REAL_QUERIES):
        summaries = [json.loads(line) for line in printed.splitlines() if line[:8] == '{"found"']
        # The last one of the schema's is about a wrong event.
        found[name] = [(each["durable"], each["refused"]) for each in summaries]
        assert re.search("^[1-9][0-9]* events$", printed, re.MULTILINE), printed
    assert found["A DTD from samples"][0][1] == 0 < found["A DTD from samples"][0][0]
    assert found["Collections"] == [(36, 0), (40, 0), (0, 0)]
    (files, none), (split, nothing), wrong = found["A DTD from an XML Schema"]
    assert (none, nothing, wrong) == (0, 0, (0, 1))
    assert files == split >= 5
