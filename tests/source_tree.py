"""Sources of a tree for `tests/test_architecture.py`."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import attrs

#: Files left by tools and nodes.
NOT_OURS = re.compile(
    r"(\.(?!ci$).*|__pycache__|build|dist|.*\.egg-info|results|tests\..*|xmlbroker-data.*)"
)


@attrs.frozen
class Import:
    """`when` is "now", "typing" (for the type checker only) or "later" (inside a function)."""

    target: str
    line: int
    when: str


@attrs.frozen
class Tree:
    root: Path

    def files(self, folder: str = "") -> Iterator[Path]:
        start = self.root / folder
        if not start.is_dir() or (start / "pyvenv.cfg").exists():
            return
        for path in sorted(start.iterdir()):
            if path.is_dir() and not NOT_OURS.fullmatch(path.name):
                yield from self.files(self.name(path))
            elif (
                path.is_file()
                and path.name != ".git"
                and path.suffix != ".pyc"
                and path.name != "dropin.cache"
            ):
                yield path

    def name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def modules(self) -> dict[str, Path]:
        """Return the modules of `broker` and `plugins` by dotted name."""
        found = {}
        for top in ("broker", "plugins"):
            for path in self.files(top):
                if path.suffix == ".py":
                    parts = path.relative_to(self.root).with_suffix("").parts
                    found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
        return found

    def imports(self) -> dict[str, list[Import]]:
        """Return the imports of each module, internal and external."""
        return _all_imports(self)


@functools.cache
def _all_imports(tree: Tree) -> dict[str, list[Import]]:
    modules = tree.modules()
    return {
        name: list(_imports(ast.parse(path.read_text()), name, path, modules, "now"))
        for name, path in modules.items()
    }


def _imports(
    node: ast.AST, module: str, path: Path, modules: dict[str, Path], when: str
) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Import(alias.name, node.lineno, when)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
            package = package[: len(package) - node.level + 1]
            base = ".".join([*package, base] if base else package)
        for alias in node.names:
            inner = f"{base}.{alias.name}"
            ours = inner in modules or not base.startswith(("broker", "plugins"))
            yield Import(inner if ours else base, node.lineno, when)
    for field, value in ast.iter_fields(node):
        inside = when
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            inside = "later"
        elif (
            isinstance(node, ast.If) and field == "body" and "TYPE_CHECKING" in ast.dump(node.test)
        ):
            inside = "typing"
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _imports(child, module, path, modules, inside)
