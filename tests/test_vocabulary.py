"""The vocabulary of the code: `WORDS` names the plain word for each private one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.source_tree import Tree

ROOT = Path(__file__).resolve().parents[1]
#: Words that do not occur in names, with the word to use.
WORDS = {
    **dict.fromkeys(("want", "wants", "wish", "wishes", "sought"), "interest"),
    **dict.fromkeys(("keeper", "keeping"), "replica"),
    **dict.fromkeys(("hole", "holes", "lack", "lacking", "lacks"), "missing range, or parameter"),
    **dict.fromkeys(("greeting", "greetings", "doorway"), "handshake"),
    "reception": "acceptor, or admission",
    "seam": "splice",
    "surroundings": "context",
    "situation": "context",
    "correction": "arq",
    "seal": "mac",
    **dict.fromkeys(("departure", "departures"), "sender"),
    **dict.fromkeys(("acquaintance", "acquaintances"), "known peers"),
    "former": "previous",
    **dict.fromkeys(("trouble", "troubles", "complaint", "complaints"), "rate-limited log"),
    **dict.fromkeys(("told", "said"), "snapshot, or the object of the verb"),
    "beside": "child process",
}
QUESTION = re.compile(r"(Who|Whom|Whose|What|Where|How|Which|That|Whether|When|Why)\b")
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def names_are_plain(tree: Tree) -> Iterator[str]:
    """Names of modules, classes and functions avoid the words on the left of `WORDS`."""
    for module, path in tree.modules().items():
        names = [(1, module.rpartition(".")[2])]
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                names.append((node.lineno, node.name))
        for line, name in names:
            for part in _PART.findall(name):
                if plain := WORDS.get(part.lower()):
                    yield f"{module}:{line} {name}: {part} is {plain} here"


def docstrings_begin_plainly(tree: Tree) -> Iterator[str]:
    """Docstrings begin with a noun or a verb."""
    for module, path in tree.modules().items():
        for node in ast.walk(ast.parse(path.read_text())):
            body = getattr(node, "body", ())
            for child in body if isinstance(body, list) else ():
                text = getattr(getattr(child, "value", None), "value", None)
                if isinstance(child, ast.Expr) and isinstance(text, str) and QUESTION.match(text):
                    yield f"{module}:{child.lineno} begins with {text.split()[0]}"


@pytest.mark.parametrize("rule", [names_are_plain, docstrings_begin_plainly])
def test_the_tree_is_plain(rule: object) -> None:
    assert list(rule(Tree(ROOT))) == []  # type: ignore[operator]


def test_a_private_word_and_a_riddle_are_found(tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    folder.mkdir()
    source = '"""Whom it serves."""\n\n\nclass SoughtEvents:\n    """What is sought."""\n'
    (folder / "seam.py").write_text(source)
    tree = Tree(tmp_path)
    assert [found.split()[1] for found in names_are_plain(tree)] == ["seam:", "SoughtEvents:"]
    assert len(list(docstrings_begin_plainly(tree))) == 2
