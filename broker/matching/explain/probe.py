"""Evaluates parts of a query on one event by lxml, within limits (checklist F13)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import attrs
from lxml import etree

from broker.event.envelope import NAMESPACE
from broker.matching.explain.access_method import truncate
from broker.matching.explain.explanation import FoundValue
from broker.matching.explain.node_path import PathFormatter
from broker.matching.explain.xpath_writer import NO_POSITION, XPathWriter
from broker.matching.query import tree
from broker.matching.query.namespaces import ENVELOPE_PREFIX
from broker.matching.query.path_parser import ENVELOPE_VARIABLE, PAYLOAD_VARIABLE
from broker.matching.query.query import Query
from broker.matching.query.tree import PathStart
from broker.matching.query.value_type import CORE_FUNCTIONS, VARIABLE_TYPES
from broker.matching.query.worst_case import DocumentSize, worst_case_cost
from broker.matching.xpath_evaluation import ParsedEvent

#: Maximum evaluations of one explanation, and seconds after which none starts. libxml2 can not be
#: interrupted, so the last one may exceed the time.
MAX_PROBES: Final = 600
MAX_SECONDS: Final = 0.1
#: Nodes that one evaluation may visit at worst: as many as libxml2 visits in `MAX_SECONDS`.
MAX_WORST: Final = MAX_SECONDS * 1e8
#: Nodes shown of a node-set.
MAX_VALUES: Final = 5
#: Functions that depend on the predicate's own node-set or on the document of its node.
_BOUND = frozenset({"position", "last", "id", "lang"})


class ProbeLimitExceeded(Exception):
    """The limit is reached, or libxml2 gave up. The remaining parts are not examined."""


class Probe:
    """Evaluates expressions of one query on one event. All methods raise `ProbeLimitExceeded`."""

    def __init__(
        self, query: Query, subject: ParsedEvent, extent: DocumentSize, clock: Callable[[], float]
    ) -> None:
        self._writer = XPathWriter(query.text, for_lxml=True)
        self._formatter = PathFormatter(query)
        self._namespaces = {**dict(query.namespaces), ENVELOPE_PREFIX: NAMESPACE}
        self._payload, self._envelope = subject.document(), subject.envelope
        self._variables: dict[str, Any] = {
            **{name: subject.variable(name) for name in VARIABLE_TYPES},
            ENVELOPE_VARIABLE: [self._envelope],
            PAYLOAD_VARIABLE: [self._payload],
        }
        self._extent = extent
        self._clock = clock
        self._deadline = clock() + MAX_SECONDS
        self._left = MAX_PROBES

    def evaluate_boolean(self, expression: tree.Expression) -> bool:
        return bool(self._run(expression, f"boolean({self._writer.write(expression)})"))

    def count_nodes(self, nodes: tree.Expression) -> int:
        return int(self._run(nodes, f"count({self._writer.write(nodes)})"))

    def evaluate_string(self, expression: tree.Expression) -> str:
        return str(self._run(expression, f"string({self._writer.write(expression)})"))

    def locate_node(self, node: tree.Expression) -> str:
        """Return the path of the only node of a node-set; empty if lxml does not provide it."""
        found = self._nodes(node, self._writer.write(node))
        return self._path(found[0]) if found else ""

    def list_values(self, nodes: tree.Expression) -> list[FoundValue]:
        """Return the first nodes with their values, at most `MAX_VALUES`."""
        chosen = self._nodes(nodes, f"({self._writer.write(nodes)})[position() <= {MAX_VALUES}]")
        if chosen is None:
            return (
                [FoundValue("", truncate(self.evaluate_string(nodes)))]
                if self.count_nodes(nodes)
                else []
            )
        return [FoundValue(self._path(each), _value(each)) for each in chosen]

    def _nodes(self, expression: tree.Expression, text: str) -> list[Any] | None:
        """Return the nodes; None if they may be in both documents, since lxml would copy some."""
        documents = set(_documents_of(expression))
        if len(documents) != 1:
            return None
        root = self._envelope if PathStart.ENVELOPE in documents else self._payload
        found = self._run(expression, text, root)
        return found if isinstance(found, list) else None

    def _run(
        self, expression: tree.Expression, text: str, context: etree._Element | None = None
    ) -> Any:
        self._left -= 1
        if self._left < 0 or self._clock() > self._deadline:
            raise ProbeLimitExceeded
        if worst_case_cost(string_call(expression), self._extent, rewritten=False) > MAX_WORST:
            raise ProbeLimitExceeded
        try:
            xpath = etree.XPath(text, namespaces=self._namespaces, regexp=False)
            return xpath(self._payload if context is None else context, **self._variables)
        except etree.LxmlError as error:
            raise ProbeLimitExceeded(str(error)) from None

    def _path(self, node: Any) -> str:
        if isinstance(node, etree._Element):
            return self._formatter.format_element(node)
        return self._formatter.format_text(node) if hasattr(node, "getparent") else ""


def _documents_of(nodes: tree.Expression) -> Iterator[PathStart]:
    """Yield the documents of a node-set's nodes: `ENVELOPE`, or `DOCUMENT` for the payload."""
    match nodes:
        case tree.Path(start=PathStart() as start):
            yield PathStart.ENVELOPE if start is PathStart.ENVELOPE else PathStart.DOCUMENT
        case tree.Path(start=start) if not isinstance(start, PathStart):
            yield from _documents_of(start)
        case tree.Filter(primary=primary):
            yield from _documents_of(primary)
        case tree.Chain(operands=operands):
            for operand in operands:
                yield from _documents_of(operand)
        case _:
            yield PathStart.DOCUMENT


def _value(node: Any) -> str:
    if isinstance(node, etree._Element):
        whole = "".join(map(str, node.itertext())) if isinstance(node.tag, str) else node.text
        return truncate(whole or "")
    return truncate(str(node[1]) if isinstance(node, tuple) else str(node))


def string_call(expression: tree.Expression) -> tree.Expression:
    """Wrap an expression in `string()`, the most expensive conversion used here."""
    return tree.FunctionCall(NO_POSITION, "string", (expression,))


def nth_node(nodes: tree.Expression, number: int) -> tree.Expression:
    return tree.Filter(NO_POSITION, nodes, (tree.Number(NO_POSITION, float(number)),))


def filter_nodes(nodes: tree.Expression, condition: tree.Expression) -> tree.Expression:
    """Return the nodes that satisfy a condition, which must not depend on their position."""
    return tree.Filter(NO_POSITION, nodes, (condition,))


def rebase(expression: tree.Expression, node: tree.Expression) -> tree.Expression | None:
    """Return the expression evaluated at `node`, a node-set of one; None if that is impossible."""

    def move(each: tree.Expression) -> tree.Expression:
        match each:
            case tree.Path(start=PathStart.CONTEXT):
                return attrs.evolve(each, start=node)
            case tree.FunctionCall(name=name, arguments=()) if CORE_FUNCTIONS[name].reads_context:
                return attrs.evolve(each, arguments=(node,))
        return tree.map_subexpressions(each, move)

    calls = (each for each in tree.walk(expression) if isinstance(each, tree.FunctionCall))
    return None if any(call.name in _BOUND for call in calls) else move(expression)
