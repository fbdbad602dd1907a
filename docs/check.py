"""Checks the documents; `./dev docs` and a test run it.

Each relative link must lead to a file of this tree, and to a heading if it names one. Each command
in a `sh` block that starts with `./dev` or `xmlbroker` must name a subcommand. Each test named in
code (`tests/....py`) must exist.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]

_FENCE = re.compile(r"^(```+|~~~+)\s*(\w*)[^\n]*\n(.*?)^\1\s*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(<?([^)\s>]+)>?[^)]*\)|^\[[^\]]+\]:\s*<?([^\s>]+)", re.MULTILINE)
_CODE = re.compile(r"`[^`\n]*`")
_HEADING = re.compile(r"^#+\s+(.*?)\s*#*$", re.MULTILINE)
_COMMAND = re.compile(r"^\s*(?:\$ )?(\./dev|xmlbroker)(?: +([^\s#]+))?", re.MULTILINE)
_TEST = re.compile(r"`(tests/[\w/.-]+\.py)(?:::(\w+))?`")
_SHELLS: Final = frozenset({"sh", "bash", "shell", "console"})


def documents(root: Path) -> list[Path]:
    """Return all Markdown files of the tree, without folders made by tools."""
    found = []
    for path in sorted(root.rglob("*.md")):
        folders = path.relative_to(root).parts[:-1]
        if not any(part.startswith(".") or part == "build" for part in folders):
            found.append(path)
    return found


def broken_links(root: Path) -> Iterator[str]:
    """Yield a sentence for each relative link that leads nowhere."""
    for document in documents(root):
        text = _FENCE.sub("", document.read_text())
        for found in _LINK.finditer(_CODE.sub("", text)):
            target = found[1] or found[2]
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            file, _, anchor = target.partition("#")
            path = (document.parent / file).resolve() if file else document
            location = f"{document.relative_to(root)}: the link {target!r}"
            if not path.is_relative_to(root) or not path.exists():
                yield f"{location} leads to no file of this tree"
            elif anchor and path.suffix == ".md" and anchor not in _anchors(path):
                yield f"{location} names no heading there"


def unknown_commands(root: Path, known: dict[str, set[str]]) -> Iterator[str]:
    """Yield a sentence for each command whose subcommand is not in `known[program]`."""
    for document in documents(root):
        for fence in _FENCE.finditer(document.read_text()):
            if fence[2] not in _SHELLS:
                continue
            for program, subcommand in _COMMAND.findall(fence[3]):
                if (
                    subcommand
                    and not subcommand.startswith("-")
                    and subcommand not in known[program]
                ):
                    yield f"{document.relative_to(root)}: {program} has no subcommand {subcommand}"


def missing_tests(root: Path) -> Iterator[str]:
    """Yield a sentence for each missing test named as `tests/x.py` or `tests/x.py::name`."""
    for document in documents(root):
        for file, name in _TEST.findall(document.read_text()):
            path = root / file
            location = document.relative_to(root)
            if not path.is_file():
                yield f"{location}: there is no {file}"
            elif name and f"def {name}(" not in path.read_text():
                yield f"{location}: {file} has no test {name}"


def dev_subcommands(root: Path) -> set[str]:
    """Return the subcommands of `./dev` from its help."""
    return set(re.findall(r"^\./dev (\w+)", (root / "dev").read_text(), re.MULTILINE))


def xmlbroker_subcommands() -> set[str]:
    """Return the subcommands of the command line tool."""
    import click

    from broker.cli import main

    return set(main.list_commands(click.Context(main)))


def _anchors(document: Path) -> set[str]:
    headings = _HEADING.findall(_FENCE.sub("", document.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _title(document: Path) -> str:
    heading = _HEADING.search(document.read_text())
    return heading[1] if heading else ""


def check(root: Path, tool: Callable[[], set[str]] = xmlbroker_subcommands) -> list[str]:
    """Return all errors in the documents below `root`."""
    known = {"./dev": dev_subcommands(root), "xmlbroker": tool()}
    return [*broken_links(root), *unknown_commands(root, known), *missing_tests(root)]


def main() -> int:
    """Print the errors, or where to start reading; return the exit status."""
    wrong = check(ROOT)
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    if wrong:
        return 1
    print("All links, commands and tests in the documents hold. Start with README.md, then:")
    for document in documents(ROOT):
        if document.name != "README.md":
            print(f"  {document.relative_to(ROOT)!s:32} {_title(document)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
