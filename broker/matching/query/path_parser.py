"""Location paths (XPath 1.0, section 2), and where they start.

Two laxities of libxml2 are followed, since it evaluates what is read here: a path may begin with
several slashes (`/ /a`, `///a`), and so may what stands behind a filter expression (`(a)///b`).
"""

from __future__ import annotations

from collections.abc import Callable

from broker.matching.query.cursor import Cursor, Replacement
from broker.matching.query.lexer import Kind, Token, bad_query
from broker.matching.query.namespaces import ENVELOPE_PREFIX
from broker.matching.query.tree import (
    Axis,
    Expression,
    KindTest,
    NameTest,
    NodeTest,
    Origin,
    Path,
    Step,
)

#: What the rewritten text calls the envelope's element and the payload's (see `addressing.py`).
ENVELOPE_VARIABLE = "_envelope"
PAYLOAD_VARIABLE = "_payload"

_ENVELOPE_TEST = NameTest(ENVELOPE_PREFIX, "Event")
#: What the first token of a step can be; a function is refused there with a message of its own.
STEP_STARTS = (
    Kind.NAME_TEST,
    Kind.NODE_TYPE,
    Kind.FUNCTION,
    Kind.AXIS,
    Kind.AT,
    Kind.DOT,
    Kind.DOUBLE_DOT,
)
_ANY_NODE = KindTest("node")


class PathParser:
    """Reads paths at the cursor; `expression` reads what stands in a predicate."""

    def __init__(self, cursor: Cursor, expression: Callable[[], Expression]) -> None:
        self._cursor = cursor
        self._expression = expression

    def absolute(self) -> Path:
        """A path at whose slash the cursor stands."""
        cursor = self._cursor
        first = last = cursor.token
        slashes = ""
        steps: list[Step] = []
        while (slash := cursor.take_if(Kind.SLASH)) is not None:
            last = slash
            if cursor.token.kind in STEP_STARTS:
                slashes, steps = "/", self._steps([])
                break
        else:
            if cursor.token.kind is Kind.DOUBLE_SLASH:
                slashes = "//"
                last, steps = self._double_slash()
        if _is_envelope(steps):
            cursor.findings.envelope_starts.append(
                Replacement(first.position, steps[0].end, f" ${ENVELOPE_VARIABLE} ")
            )
            return Path(first.position, Origin.ENVELOPE, tuple(steps))
        cursor.findings.document_starts.append(
            Replacement(first.position, last.end, f" ${PAYLOAD_VARIABLE}/..{slashes}")
        )
        return Path(first.position, Origin.DOCUMENT, tuple(steps))

    def relative(self) -> Path:
        """A path that starts at the context node, at whose first step the cursor stands."""
        cursor = self._cursor
        position = cursor.token.position
        if not cursor.predicates:
            cursor.findings.outer_context = True
        return Path(position, Origin.CONTEXT, tuple(self._steps([])))

    def onward(self, start: Expression, position: int) -> Path:
        """The path behind a filter expression, at whose slash the cursor stands."""
        cursor = self._cursor
        if cursor.take_if(Kind.SLASH):
            steps = self._steps([])
        else:
            _, steps = self._double_slash()
        return Path(position, start, tuple(steps))

    def predicates(self) -> tuple[Expression, ...]:
        """The predicates at the cursor, possibly none."""
        cursor = self._cursor
        found: list[Expression] = []
        while cursor.token.kind is Kind.LEFT_BRACKET:
            cursor.enter(cursor.take().position)
            cursor.predicates += 1
            found.append(self._expression())
            cursor.predicates -= 1
            cursor.leave()
            cursor.expect(Kind.RIGHT_BRACKET, "after the predicate")
        return tuple(found)

    def _double_slash(self) -> tuple[Token, list[Step]]:
        last = self._cursor.take()
        steps = [self._any_descendant(last)]
        if (again := self._cursor.take_if(Kind.SLASH, Kind.DOUBLE_SLASH)) is not None:
            last = again
            if again.kind is Kind.DOUBLE_SLASH:
                steps.append(self._any_descendant(again))
        return last, self._steps(steps)

    def _steps(self, steps: list[Step]) -> list[Step]:
        cursor = self._cursor
        steps.append(self._step())
        while (slash := cursor.take_if(Kind.SLASH, Kind.DOUBLE_SLASH)) is not None:
            if slash.kind is Kind.DOUBLE_SLASH:
                steps.append(self._any_descendant(slash))
            steps.append(self._step())
        return steps

    def _any_descendant(self, slashes: Token) -> Step:
        self._cursor.count_step(slashes.position)
        return Step(slashes.position, slashes.end, Axis.DESCENDANT_OR_SELF, _ANY_NODE)

    def _step(self) -> Step:
        cursor = self._cursor
        first = cursor.token
        cursor.count_step(first.position)
        if cursor.take_if(Kind.DOT):
            return Step(first.position, first.end, Axis.SELF, _ANY_NODE)
        if cursor.take_if(Kind.DOUBLE_DOT):
            return Step(first.position, first.end, Axis.PARENT, _ANY_NODE)
        if (axis_token := cursor.take_if(Kind.AXIS)) is not None:
            axis = Axis(axis_token.text)
        else:
            axis = Axis.ATTRIBUTE if cursor.take_if(Kind.AT) else Axis.CHILD
        test, end = self._node_test()
        return Step(first.position, end, axis, test, self.predicates())

    def _node_test(self) -> tuple[NodeTest, int]:
        cursor = self._cursor
        token = cursor.token
        if token.kind is Kind.NAME_TEST:
            cursor.take()
            prefix, colon, local = token.text.rpartition(":")
            if colon:
                cursor.findings.prefixes.setdefault(prefix, token.position)
            return NameTest(prefix if colon else None, None if local == "*" else local), token.end
        if token.kind is Kind.NODE_TYPE:
            cursor.take()
            cursor.expect(Kind.LEFT_PAREN, "after the node type")
            target = None
            if token.text == "processing-instruction":
                literal = cursor.take_if(Kind.LITERAL)
                target = None if literal is None else literal.text
            closing = cursor.expect(Kind.RIGHT_PAREN, f"after '{token.text}('")
            return KindTest(token.text, target), closing.end
        if token.kind is Kind.FUNCTION:
            raise bad_query(
                f"a function ({token.text[:40]}) can not be a step of a path; "
                "put it around the path or into a predicate",
                token.position,
            )
        raise bad_query(f"expected a step of a path, found {token}", token.position)


def _is_envelope(steps: list[Step]) -> bool:
    return bool(steps) and steps[0].axis is Axis.CHILD and steps[0].test == _ENVELOPE_TEST
