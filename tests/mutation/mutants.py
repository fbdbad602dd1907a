"""Mutants of a module: one small change each, in the body of a function.

Cosmic Ray's operators make most of them, two operators of our own the rest. Module constants,
class bodies and f-strings are not mutated: tests repeat constants, and f-strings are messages.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from copy import deepcopy
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import attrs
import parso
from cosmic_ray.operators.operator import Operator
from cosmic_ray.operators.provider import OperatorProvider

#: Replacements of comparisons: the negation, and the other choice at the bound.
_COMPARISONS: Final = (
    *("Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is"),
    *("Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt", "Gt_GtE", "Gt_LtE", "GtE_Gt", "GtE_Lt"),
)
_OTHERS: Final = (
    *("AddNot", "ReplaceUnaryOperator_Delete_Not", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue"),
    *("ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceBreakWithContinue"),
    *("ReplaceContinueWithBreak", "ExceptionReplacer", "NumberReplacer", "ZeroIterationForLoop"),
    *("ReplaceBinaryOperator_Add_Sub", "ReplaceBinaryOperator_Sub_Add"),
)


class DeleteStatement(Operator):  # type: ignore[misc]
    """Replace a call, an assignment to an attribute or item, or a `raise` by `pass`."""

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        if node.type == "simple_stmt" and _has_effect(node.children[0]):
            yield node.children[0].start_pos, node.children[0].end_pos

    def mutate(self, node: Any, _index: int) -> Any:
        """Return `pass`, with empty lines for the statement's further lines."""
        statement = node.children[0]
        lines = statement.end_pos[0] - statement.start_pos[0]
        node.children[0] = parso.parse(statement.get_first_leaf().prefix + "pass" + "\n" * lines)
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        """Return no examples; they are for Cosmic Ray's documents."""
        return ()


class NegateIn(Operator):  # type: ignore[misc]
    """Replace `in` by `not in`, and the reverse."""

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        if node.type == "comparison" and _words(node.children[1]) in ("in", "not in"):
            yield node.children[1].start_pos, node.children[1].end_pos

    def mutate(self, node: Any, _index: int) -> Any:
        other = "not in" if _words(node.children[1]) == "in" else "in"
        node.children[1] = parso.parse(" " + other)
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        """Return no examples; they are for Cosmic Ray's documents."""
        return ()


def _words(node: Any) -> str:
    return " ".join(node.get_code().split())


def _has_effect(statement: Any) -> bool:
    if statement.type in ("raise_stmt", "del_stmt", "yield_expr"):
        return True
    if statement.type == "expr_stmt":
        # A missing local variable fails at once, so only changes of outer objects count.
        target = statement.children[0]
        return (
            target.type == "atom_expr"
            or statement.children[1].type == "operator"
            and (statement.children[1].value not in ("=", ":="))
        )
    if statement.type in ("atom_expr", "await_expr"):
        words = statement.get_code().strip()
        return not words.startswith(("log.", "_log.", "self.log.", "self._log.", "super()"))
    return False


def _operators() -> dict[str, Operator]:
    provider = OperatorProvider()
    names = [f"ReplaceComparisonOperator_{each}" for each in _COMPARISONS] + list(_OTHERS)
    return {name: provider[name]() for name in names} | {
        "DeleteStatement": DeleteStatement(),
        "NegateIn": NegateIn(),
    }


_OPERATORS: Final = _operators()


@attrs.frozen
class Mutant:
    """One mutated module."""

    path: Path
    operator: str
    function: str
    """The innermost function around the change."""
    lines: range
    """Lines of the statement, or of a compound statement's head."""
    before: str
    after: str
    source: str = attrs.field(repr=False)
    """The whole module with the change."""
    line: int

    @property
    def key(self) -> str:
        """Identity that is independent of line numbers."""
        return f"{self.function}: {self.before} -> {self.after}"

    def is_sampled(self, share: float) -> bool:
        """True if a run with this `share` tries it; the choice is deterministic."""
        text = f"{self.path.name} {self.key} {self.operator}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) < share * 2**32


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yield all mutants of the module in the order of their lines."""
    source = path.read_text()
    line_starts = [0, *accumulate(len(line) for line in source.splitlines(keepends=True))]
    statements = _Statements(source)
    found: list[tuple[int, Mutant]] = []
    for node in _nodes(parso.parse(source)):
        if _is_in_text(node) or _is_index(node):
            continue
        for name, operator in _OPERATORS.items():
            for index, ((line, column), _) in enumerate(operator.mutation_positions(node)):
                place = statements.around(line)
                code = None if place is None else _mutated(operator, node, index)
                if place is None or code is None:
                    continue
                row, at = node.get_start_pos_of_prefix()
                start = line_starts[row - 1] + at
                changed = source[:start] + code + source[start + len(node.get_code()) :]
                before, after = _difference(source, changed)
                mutant = Mutant(path, name, *place, before, after, changed, line)
                found.append((line_starts[line - 1] + column, mutant))
    return (mutant for _, mutant in sorted(found, key=lambda each: each[0]))


def _mutated(operator: Operator, node: Any, index: int) -> str | None:
    """Return the node's code after the change; the node itself is not changed."""
    parent, node.parent = node.parent, None
    copied = deepcopy(node)
    node.parent = parent
    try:
        return str(operator.mutate(copied, index).get_code())
    except AttributeError:
        # Cosmic Ray's operator fails at `except module.Error`.
        return None


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    for child in getattr(node, "children", ()):
        yield from _nodes(child)


def _is_in_text(node: Any) -> bool:
    while node is not None:
        if node.type == "fstring":
            return True
        node = node.parent
    return False


def _is_index(node: Any) -> bool:
    """True for a number in brackets; tests nearly always notice another index."""
    return bool(node.type == "number" and node.parent.type == "trailer")


def _difference(source: str, changed: str) -> tuple[str, str]:
    old, new = source.split("\n"), changed.split("\n")
    at = next(number for number, pair in enumerate(zip(old, new, strict=False)) if len({*pair}) > 1)
    return " ".join(old[at].split()), " ".join(new[at].split())


class _Statements:
    """Statements within functions, by line."""

    def __init__(self, source: str) -> None:
        self._found: list[tuple[range, str]] = []
        self._collect(ast.parse(source), "", inside=False)

    def around(self, line: int) -> tuple[str, range] | None:
        """Return function and lines of the innermost statement; None outside functions."""
        within = [(len(lines), name, lines) for lines, name in self._found if line in lines]
        return min(within, key=lambda each: each[0])[1:] if within else None

    def _collect(self, node: ast.AST, name: str, *, inside: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                # Defaults and decorators run at import.
                for statement in child.body:
                    self._add(statement, f"{name}{child.name}")
            elif isinstance(child, ast.ClassDef):
                self._collect(child, f"{name}{child.name}.", inside=False)
            elif not inside and isinstance(child, ast.stmt):
                self._collect(child, name, inside=False)

    def _add(self, statement: ast.stmt, name: str) -> None:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            for each in statement.body:
                self._add(each, f"{name}.{statement.name}")
            return
        blocks = [
            child
            for child in ast.walk(statement)
            if isinstance(child, ast.stmt) and child is not statement
        ]
        end = min((each.lineno for each in blocks), default=(statement.end_lineno or 0) + 1)
        self._found.append((range(statement.lineno, max(end, statement.lineno + 1)), name))
        self._add_below(statement, name)

    def _add_below(self, statement: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(statement):
            if isinstance(child, ast.stmt):
                self._add(child, name)
            elif isinstance(child, ast.ExceptHandler):
                self._found.append((range(child.lineno, child.body[0].lineno), name))
                self._add_below(child, name)
            elif isinstance(child, ast.match_case):
                self._add_below(child, name)
