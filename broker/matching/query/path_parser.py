"""Parser for location paths (XPath 1.0, section 2).

Two extensions of libxml2 are accepted. A path may begin with several slashes (`/ /a`, `///a`), and
so may the steps behind a filter expression (`(a)///b`).
"""

from __future__ import annotations

from collections.abc import Callable

from broker.matching.query import tree
from broker.matching.query.cursor import Cursor, Replacement
from broker.matching.query.lexer import Token, TokenKind, bad_query_at
from broker.matching.query.namespaces import ENVELOPE_PREFIX

#: Variables for the envelope's and the payload's element in the rewritten text (`query.py`).
ENVELOPE_VARIABLE = "_envelope"
PAYLOAD_VARIABLE = "_payload"

_ENVELOPE_TEST = tree.NameTest(ENVELOPE_PREFIX, "Event")
#: Kinds of a step's first token. A function there is rejected with a message of its own.
STEP_START_KINDS = (
    TokenKind.NAME_TEST,
    TokenKind.NODE_TYPE,
    TokenKind.FUNCTION,
    TokenKind.AXIS,
    TokenKind.AT,
    TokenKind.DOT,
    TokenKind.DOUBLE_DOT,
)


class PathParser:
    def __init__(self, cursor: Cursor, expression: Callable[[], tree.Expression]) -> None:
        self._cursor = cursor
        self._parse_expression = expression

    def parse_absolute(self) -> tree.Path:
        cursor = self._cursor
        first = last = cursor.token
        slashes = ""
        steps: list[tree.Step] = []
        while (slash := cursor.accept(TokenKind.SLASH)) is not None:
            last = slash
            if cursor.token.kind in STEP_START_KINDS:
                slashes, steps = "/", self._parse_steps([])
                break
        else:
            if cursor.token.kind is TokenKind.DOUBLE_SLASH:
                slashes = "//"
                last, steps = self._parse_double_slash()
        if steps and steps[0].axis is tree.Axis.CHILD and steps[0].test == _ENVELOPE_TEST:
            cursor.info.envelope_replacements.append(
                Replacement(first.position, steps[0].end, f" ${ENVELOPE_VARIABLE} ")
            )
            return tree.Path(first.position, tree.PathStart.ENVELOPE, tuple(steps))
        cursor.info.document_replacements.append(
            Replacement(first.position, last.end, f" ${PAYLOAD_VARIABLE}/..{slashes}")
        )
        return tree.Path(first.position, tree.PathStart.DOCUMENT, tuple(steps))

    def parse_relative(self) -> tree.Path:
        cursor = self._cursor
        position = cursor.token.position
        if not cursor.predicate_depth:
            cursor.info.reads_outer_context = True
        return tree.Path(position, tree.PathStart.CONTEXT, tuple(self._parse_steps([])))

    def parse_continuation(self, start: tree.Expression, position: int) -> tree.Path:
        cursor = self._cursor
        if cursor.accept(TokenKind.SLASH):
            steps = self._parse_steps([])
        else:
            _, steps = self._parse_double_slash()
        return tree.Path(position, start, tuple(steps))

    def parse_predicates(self) -> tuple[tree.Expression, ...]:
        cursor = self._cursor
        found: list[tree.Expression] = []
        while cursor.token.kind is TokenKind.LEFT_BRACKET:
            cursor.open_bracket(cursor.advance().position)
            cursor.predicate_depth += 1
            found.append(self._parse_expression())
            cursor.predicate_depth -= 1
            cursor.close_bracket()
            cursor.expect(TokenKind.RIGHT_BRACKET, "after the predicate")
        return tuple(found)

    def _parse_double_slash(self) -> tuple[Token, list[tree.Step]]:
        last = self._cursor.advance()
        steps = [self._descendant_step(last)]
        if (again := self._cursor.accept(TokenKind.SLASH, TokenKind.DOUBLE_SLASH)) is not None:
            last = again
            if again.kind is TokenKind.DOUBLE_SLASH:
                steps.append(self._descendant_step(again))
        return last, self._parse_steps(steps)

    def _parse_steps(self, steps: list[tree.Step]) -> list[tree.Step]:
        cursor = self._cursor
        steps.append(self._parse_step())
        while (slash := cursor.accept(TokenKind.SLASH, TokenKind.DOUBLE_SLASH)) is not None:
            if slash.kind is TokenKind.DOUBLE_SLASH:
                steps.append(self._descendant_step(slash))
            steps.append(self._parse_step())
        return steps

    def _descendant_step(self, slashes: Token) -> tree.Step:
        self._cursor.count_step(slashes.position)
        return tree.Step(slashes.position, slashes.end, tree.Axis.DESCENDANT_OR_SELF, tree.ANY_NODE)

    def _parse_step(self) -> tree.Step:
        cursor = self._cursor
        first = cursor.token
        cursor.count_step(first.position)
        if cursor.accept(TokenKind.DOT):
            return tree.Step(first.position, first.end, tree.Axis.SELF, tree.ANY_NODE)
        if cursor.accept(TokenKind.DOUBLE_DOT):
            return tree.Step(first.position, first.end, tree.Axis.PARENT, tree.ANY_NODE)
        if (axis_token := cursor.accept(TokenKind.AXIS)) is not None:
            axis = tree.Axis(axis_token.text)
        else:
            axis = tree.Axis.ATTRIBUTE if cursor.accept(TokenKind.AT) else tree.Axis.CHILD
        test, end = self._parse_node_test()
        return tree.Step(first.position, end, axis, test, self.parse_predicates())

    def _parse_node_test(self) -> tuple[tree.NodeTest, int]:
        cursor = self._cursor
        token = cursor.token
        if token.kind is TokenKind.NAME_TEST:
            cursor.advance()
            prefix, colon, local = token.text.rpartition(":")
            if colon:
                cursor.info.prefixes.setdefault(prefix, token.position)
            return tree.NameTest(
                prefix if colon else None, None if local == "*" else local
            ), token.end
        if token.kind is TokenKind.NODE_TYPE:
            cursor.advance()
            cursor.expect(TokenKind.LEFT_PAREN, "after the node type")
            target = None
            if token.text == "processing-instruction":
                literal = cursor.accept(TokenKind.LITERAL)
                target = None if literal is None else literal.text
            closing = cursor.expect(TokenKind.RIGHT_PAREN, f"after '{token.text}('")
            return tree.KindTest(token.text, target), closing.end
        if token.kind is TokenKind.FUNCTION:
            raise bad_query_at(
                f"a function ({token.text[:40]}) can not be a step of a path; "
                "put it around the path or into a predicate",
                token.position,
            )
        raise bad_query_at(f"expected a step of a path, found {token}", token.position)
