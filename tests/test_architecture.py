"""Architecture rules, checked on the whole tree, and each check tested on small trees.

The tables at the top are the rules. None of the sources is imported.
"""

from __future__ import annotations

import ast
import fnmatch
import re
import string
from collections.abc import Callable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.source_tree import Tree

ROOT = Path(__file__).resolve().parents[1]

# --------------------------------------------------------------------------- the rules as tables

#: A module imports only from its own level or below.
FLOORS = (
    (
        *("broker", "broker.error", "broker.errors", "broker.rate_limited_log"),
        *("broker.limit_registry", "broker.audit", "broker.queue_memory"),
        *("broker.private_files", "broker.printable", "broker.canonical_base64"),
    ),
    (
        *("broker.event", "broker.transport", "broker.scram"),
        *("broker.order_certificates", "broker.signatures"),
        *("broker.streams.contract", "broker.streams.dropped_count"),
    ),
    ("broker.dtd", "broker.config"),
    ("broker.matching", "broker.log", "broker.archive", "broker.identity"),
    ("broker.wire", "broker.streams"),
    (
        *("broker.ingest", "broker.delivery", "broker.subscriptions", "broker.sessions"),
        *("broker.tracing", "broker.cluster", "broker.client", "plugins"),
        *("broker.streams", "broker.recovery", "broker.replay", "broker.archiver", "broker.child"),
    ),
    ("broker.node", "broker.cli"),
    # Test doubles.
    ("broker.testing",),
)
#: (package, forbidden import, except from these modules); names include all below them.
FORBIDDEN_IMPORTS = (
    ("broker.event", "broker.transport", ()),
    ("broker.transport", "broker.event", ()),
    # A connection monitor and the driver alone know sockets and their errors (RCM R4).
    *(
        (f"broker.transport.{package}", forbidden, ())
        for package in ("monitor", "p2p", "baseline", "multicast", "order")
        for forbidden in ("broker.transport.socket", "broker.transport.link", "twisted.internet")
    ),
    ("plugins.rcm", "broker.transport.socket", ()),
    ("broker", "plugins", ()),
    ("broker", "broker.testing", ("broker.testing",)),
    ("plugins", "broker.testing", ()),
    ("broker", "broker.matching.reference_matcher", ("broker.matching", "broker.node.matcher")),
    ("plugins", "broker.matching.reference_matcher", ()),
)
XPATH_PACKAGE = "broker.matching"
LOG_LEVELS = frozenset({"debug", "info", "warn", "error", "failure", "critical"})
XPATH_NAMES = frozenset({"XPath", "ETXPath", "XPathEvaluator", "xpath"})
#: Sans-I/O.
CORES = (
    *("broker/event/*.py", "plugins/*/core.py", "plugins/*/*_core.py"),
    *("broker/scram/*.py", "broker/order_certificates/*.py", "plugins/rcm/certificates/*.py"),
    *(
        f"broker/{folder}/{name}"
        for folder in (
            *("transport", "wire", "ingest", "delivery", "subscriptions", "sessions"),
            *("cluster", "client", "recovery", "replay"),
        )
        for name in ("core.py", "*/core.py", "*_core.py", "*sender.py", "*receiver.py")
    ),
)
NOT_IN_CORES = (
    *("twisted.internet.reactor", "twisted.internet.task", "twisted.internet.threads"),
    *("asyncio", "concurrent", "multiprocessing", "select", "selectors", "signal", "socket"),
    *("ssl", "subprocess", "threading", "time"),
)
EMPTY_NAMES = re.compile(r"(utils?|helpers?|managers?|misc|common|handlers?|processors?)", re.I)
MAX_LINES = 400
MUST_NOT_EXIST = ("twisted/__init__.py", "twisted/plugins/__init__.py")
#: An XPath may begin with `/root`, so that one is left out.
MACHINE_PATH = re.compile(r"(?<![\w.:/<>\])*-])/(?:work|tmp|home|Users|opt)(?![\w-])")


def _within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def _floor(module: str) -> int | None:
    exact = {name: level for level, names in enumerate(FLOORS) for name in names}
    if module in exact:
        return exact[module]
    for name, level in exact.items():
        # A new package needs an entry.
        if name != "broker" and _within(module, name):
            return level
    return None


# --------------------------------------------------------------------------- the rules


def imports_go_down(tree: Tree) -> Iterator[str]:
    for module, imports in tree.imports().items():
        floor = _floor(module)
        if floor is None:
            yield f"{module} is on no floor"
            continue
        for each in imports:
            target = _floor(each.target)
            if target is not None and target > floor:
                yield f"{module}:{each.line} imports {each.target} of a higher floor"


def forbidden_imports_are_absent(tree: Tree) -> Iterator[str]:
    for module, imports in tree.imports().items():
        for who, what, but in FORBIDDEN_IMPORTS:
            if _within(module, who) and not any(_within(module, name) for name in but):
                for each in imports:
                    if _within(each.target, what):
                        yield f"{module}:{each.line} must not import {each.target}"


def _find_cycle(tree: Tree, whens: tuple[str, ...]) -> Iterator[str]:
    modules = tree.modules().keys()
    graph = {
        module: {each.target for each in imports if each.when in whens} & modules - {module}
        for module, imports in tree.imports().items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        yield " is imported by ".join(circle.args[1])


def no_import_cycle(tree: Tree) -> Iterator[str]:
    yield from _find_cycle(tree, ("now",))


def no_type_checking_cycle(tree: Tree) -> Iterator[str]:
    yield from _find_cycle(tree, ("now", "typing"))


def cores_do_no_io(tree: Tree) -> Iterator[str]:
    modules = tree.modules()
    for module, imports in tree.imports().items():
        if any(fnmatch.fnmatch(tree.name(modules[module]), core) for core in CORES):
            for each in imports:
                if any(_within(each.target, name) for name in NOT_IN_CORES):
                    yield f"{module}:{each.line} is a core and imports {each.target}"


def only_matching_uses_xpath(tree: Tree) -> Iterator[str]:
    for module, path in tree.modules().items():
        if not _within(module, XPATH_PACKAGE):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Attribute) and node.attr in XPATH_NAMES:
                    yield f"{module}:{node.lineno} uses lxml's {node.attr}"


def log_messages_have_their_fields(tree: Tree) -> Iterator[str]:
    for module, path in tree.modules().items():
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(
                    ast.Attribute(ast.Attribute(attr="log" | "_log") | ast.Name("log"), level),
                    [ast.Constant(str(text))],
                    keywords,
                ):
                    given = {each.arg for each in keywords} - {"failure"}
                    named = {field for _, field, *_ in string.Formatter().parse(text) if field}
                    if level in LOG_LEVELS and None not in given and given != named:
                        yield f"{module}:{node.lineno} gives {given} to a text with {named}"


def no_sleep_in_tests(tree: Tree) -> Iterator[str]:
    for path in tree.files("tests"):
        if path.suffix != ".py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.ImportFrom)
                and node.module == "time"
                and any(alias.name == "sleep" for alias in node.names)
            ) or (
                isinstance(node, ast.Attribute)
                and node.attr == "sleep"
                and isinstance(node.value, ast.Name)
                and node.value.id == "time"
            ):
                yield f"{tree.name(path)}:{node.lineno} sleeps"


def names_are_specific(tree: Tree) -> Iterator[str]:
    for path in tree.files():
        for part in path.relative_to(tree.root).parts:
            if EMPTY_NAMES.fullmatch(part.split(".")[0].strip("_")):
                yield f"{tree.name(path)}: {part} says nothing"


def modules_have_a_first_line(tree: Tree) -> Iterator[str]:
    for module, path in tree.modules().items():
        text = path.read_text()
        if text and ast.get_docstring(ast.parse(text)) is None:
            yield f"{module} has no docstring"


def files_are_short(tree: Tree) -> Iterator[str]:
    for path in tree.files():
        if path.suffix in (".py", ".sh") or path.name in ("dev", "run"):
            lines = len(path.read_text().splitlines())
            if lines > MAX_LINES:
                yield f"{tree.name(path)} has {lines} lines, over {MAX_LINES}"


def no_machine_path(tree: Tree) -> Iterator[str]:
    for path in tree.files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if found := MACHINE_PATH.search(line):
                yield f"{tree.name(path)}:{number} names {found[0]}, a path of one machine"


def twisted_finds_the_plugins(tree: Tree) -> Iterator[str]:
    for name in MUST_NOT_EXIST:
        if (tree.root / name).exists():
            yield f"{name} would hide Twisted's own package"


RULES: tuple[Callable[[Tree], Iterator[str]], ...] = (
    imports_go_down,
    forbidden_imports_are_absent,
    no_import_cycle,
    no_type_checking_cycle,
    cores_do_no_io,
    only_matching_uses_xpath,
    log_messages_have_their_fields,
    no_sleep_in_tests,
    names_are_specific,
    modules_have_a_first_line,
    files_are_short,
    no_machine_path,
    twisted_finds_the_plugins,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_tree_keeps_the_rule(rule: Callable[[Tree], Iterator[str]]) -> None:
    assert list(rule(Tree(ROOT))) == []


# --------------------------------------------------------------------------- made-up trees


def make_tree(root: Path, files: dict[str, str]) -> Tree:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Tree(root)


CYCLE = {
    "broker/event/one.py": "from broker.event import two",
    "broker/event/two.py": "from broker.event.one import x",
}
TYPING_CYCLE = {
    "broker/event/one.py": "from broker.event import two",
    "broker/event/two.py": "if TYPE_CHECKING:\n    from broker.event.one import x",
}
SLASH = "/"


@pytest.mark.parametrize(
    ("rule", "files", "told"),
    [
        (imports_go_down, {"broker/event/a.py": "import broker.dtd.b"}, "a:1 imports broker.dtd.b"),
        (
            imports_go_down,
            {"broker/dtd/a.py": "from broker.node.node import x"},
            "broker.node.node",
        ),
        (
            imports_go_down,
            {"broker/log/a.py": "\ndef f():\n    from ..wire import x"},
            "a:3 imports broker.wire",
        ),
        (imports_go_down, {"broker/newcomer/a.py": ""}, "newcomer.a is on no floor"),
        (
            forbidden_imports_are_absent,
            {"broker/event/a.py": "import broker.transport"},
            "broker.transport",
        ),
        (
            forbidden_imports_are_absent,
            {"broker/transport/a.py": "import broker.event.x"},
            "broker.event.x",
        ),
        (
            forbidden_imports_are_absent,
            {"broker/node/node.py": "import plugins.rcm"},
            "plugins.rcm",
        ),
        (
            forbidden_imports_are_absent,
            {"broker/node/node.py": "from broker.testing import x"},
            "testing",
        ),
        (
            forbidden_imports_are_absent,
            {
                "broker/matching/reference_matcher.py": "",
                "broker/ingest/a.py": "from broker.matching import reference_matcher",
            },
            "broker.ingest.a:1 must not import broker.matching.reference_matcher",
        ),
        (no_import_cycle, CYCLE, "is imported by"),
        (no_type_checking_cycle, TYPING_CYCLE, "is imported by"),
        (cores_do_no_io, {"broker/transport/p2p/core.py": "import time"}, "time"),
        (
            cores_do_no_io,
            {"broker/wire/login_core.py": "from twisted.internet import reactor"},
            "twisted.internet.reactor",
        ),
        (cores_do_no_io, {"broker/event/a.py": "from socket import x"}, "socket"),
        (only_matching_uses_xpath, {"broker/dtd/a.py": "tree.xpath('//a')"}, "lxml's xpath"),
        (
            log_messages_have_their_fields,
            {"broker/log/a.py": "log.warn('{one} {two}', one=1, other=2)"},
            "broker.log.a:1 gives",
        ),
        (no_sleep_in_tests, {"tests/a.py": "import time\ntime.sleep(1)"}, "a.py:2 sleeps"),
        (no_sleep_in_tests, {"tests/a.py": "from time import sleep"}, "a.py:1 sleeps"),
        (names_are_specific, {"broker/event/utils.py": ""}, "utils.py says nothing"),
        (names_are_specific, {"broker/common/a.py": ""}, "common says nothing"),
        (modules_have_a_first_line, {"broker/log/a.py": "x = 1"}, "broker.log.a has no docstring"),
        (files_are_short, {"broker/a.py": "\n" * 401}, "has 401 lines"),
        (no_machine_path, {"README.md": f"\nin {SLASH}work/main"}, "README.md:2 names"),
        (no_machine_path, {"a.py": f"x = '{SLASH}home/me/x'"}, "a.py:1 names"),
        (twisted_finds_the_plugins, {"twisted/plugins/__init__.py": ""}, "would hide"),
    ],
)
def test_a_broken_rule_is_reported(
    rule: Callable[[Tree], Iterator[str]], files: dict[str, str], told: str, tmp_path: Path
) -> None:
    sentences = list(rule(make_tree(tmp_path, files)))
    assert len(sentences) == 1
    assert told in sentences[0]


def test_allowed_code_is_not_reported(tmp_path: Path) -> None:
    first_line = '"""Example."""\n'
    tree = make_tree(
        tmp_path,
        {
            "broker/__init__.py": "",
            "broker/errors.py": first_line + "import time",
            "broker/event/__init__.py": first_line + "from broker.event.one import x",
            "broker/event/one.py": first_line
            + "from broker.errors import x\nfrom broker.event import two",
            "broker/event/two.py": first_line + "def f():\n    from broker.event.one import x",
            "broker/dtd/fetch.py": first_line + "import time, socket",
            "broker/matching/reference_matcher.py": first_line
            + "from lxml import etree\netree.XPath('//a')",
            "broker/node/matcher.py": first_line
            + "from broker.matching.reference_matcher import x",
            "plugins/rcm/stack.py": first_line + "from broker.transport.stack import x",
            "tests/a.py": "clock.sleep(1)",
            "README.md": f"https://example.org{SLASH}home/page and ..{SLASH}tmp",
            ".venv/lib/utils.py": "\n" * 500,
        },
    )
    assert [sentence for rule in RULES for sentence in rule(tree)] == []
