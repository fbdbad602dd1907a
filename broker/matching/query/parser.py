"""Parser for queries: tokens to the typed tree (XPath 1.0, section 3).

Precedence uses two stacks. So a bracket costs few frames, and `max_nesting` keeps the deepest query
far from the recursion limit.
"""

from __future__ import annotations

from broker.event.envelope import ENVELOPE_PREFIX
from broker.matching.query import tree
from broker.matching.query.cursor import Cursor, ParseInfo, Replacement
from broker.matching.query.extension_function import record_call_rewrite
from broker.matching.query.lexer import Token, TokenKind, bad_query_at
from broker.matching.query.limits import QueryLimits
from broker.matching.query.number import parse_number
from broker.matching.query.value_type import CORE_FUNCTIONS, VARIABLE_TYPES, value_type

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

#: Binary operators, with the strongest last.
PRECEDENCE = {
    operator: level
    for level, operators in enumerate(("or", "and", "= !=", "< <= > >=", "+ -", "* div mod"), 1)
    for operator in operators.split()
}
_PRIMARY_KINDS = (
    TokenKind.NUMBER,
    TokenKind.LITERAL,
    TokenKind.VARIABLE,
    TokenKind.FUNCTION,
    TokenKind.LEFT_PAREN,
)


def parse_expression(
    text: str, limits: QueryLimits, default_prefix: str | None = None
) -> tuple[tree.Expression, ParseInfo]:
    """Parse a whole query; return its tree and the collected facts, or raise `BadQuery`.

    Tests with `default_prefix` are marked as those of the default namespace.
    """
    parser = _Parser(Cursor(text, limits), default_prefix)
    expression = parser.parse_expression()
    parser.expect_end()
    return expression, parser.cursor.info


class _Parser:
    def __init__(self, cursor: Cursor, default_prefix: str | None) -> None:
        self.cursor = cursor
        self._default_prefix = default_prefix

    def expect_end(self) -> None:
        token = self.cursor.token
        if token.kind is not TokenKind.END:
            raise bad_query_at(
                f"expected an operator or the end of the query, found {token}", token.position
            )

    def parse_expression(self) -> tree.Expression:
        operands = [self._parse_unary()]
        operators: list[Token] = []
        while (token := self.cursor.token).kind is TokenKind.OPERATOR and token.text in PRECEDENCE:
            self.cursor.advance()
            while operators and PRECEDENCE[operators[-1].text] >= PRECEDENCE[token.text]:
                self._apply_operator(operands, operators.pop())
            operators.append(token)
            operands.append(self._parse_unary())
        while operators:
            self._apply_operator(operands, operators.pop())
        return operands[0]

    def _apply_operator(self, operands: list[tree.Expression], operator: Token) -> None:
        right, left = operands.pop(), operands.pop()
        if operator.text in ("and", "or"):
            operands.append(_join_chain(operator, left, right))
        else:
            if isinstance(left, tree.Binary) or isinstance(right, tree.Binary):
                self.cursor.count_operator(operator.position)
            operands.append(tree.Binary(operator.position, operator.text, left, right))

    def _parse_unary(self) -> tree.Expression:
        first = self.cursor.token
        signs = 0
        while self._is_at_operator("-"):
            self.cursor.advance()
            signs += 1
        operand = self._parse_union()
        return tree.Negation(first.position, operand, signs) if signs else operand

    def _parse_union(self) -> tree.Expression:
        left = self._parse_path()
        while self._is_at_operator("|"):
            operator = self.cursor.advance()
            _require_node_set(left, "the left side of '|'", operator.position)
            position = self.cursor.token.position
            right = self._parse_path()
            _require_node_set(right, "the right side of '|'", position)
            left = _join_chain(operator, left, right)
        return left

    def _is_at_operator(self, text: str) -> bool:
        token = self.cursor.token
        return token.kind is TokenKind.OPERATOR and token.text == text

    def _parse_path(self) -> tree.Expression:
        token = self.cursor.token
        if token.kind in (TokenKind.SLASH, TokenKind.DOUBLE_SLASH):
            return self._parse_absolute()
        if token.kind not in _PRIMARY_KINDS:
            if token.kind not in STEP_START_KINDS:
                raise bad_query_at(f"expected an operand, found {token}", token.position)
            return self._parse_relative()
        filtered = self._parse_primary(token)
        predicates = self._parse_predicates()
        if predicates:
            _require_node_set(filtered, "the expression before a predicate", token.position)
            filtered = tree.Filter(token.position, filtered, predicates)
        if self.cursor.token.kind in (TokenKind.SLASH, TokenKind.DOUBLE_SLASH):
            _require_node_set(filtered, "the expression before '/'", token.position)
            return self._parse_continuation(filtered, token.position)
        return filtered

    def _parse_primary(self, token: Token) -> tree.Expression:
        self.cursor.advance()
        if token.kind is TokenKind.NUMBER:
            return tree.Number(token.position, parse_number(token.text))
        if token.kind is TokenKind.LITERAL:
            return tree.Literal(token.position, token.text)
        if token.kind is TokenKind.VARIABLE:
            return self._parse_variable(token)
        if token.kind is TokenKind.FUNCTION:
            return self._parse_call(token)
        self.cursor.open_bracket(token.position)
        expression = self.parse_expression()
        self.cursor.close_bracket()
        self.cursor.expect(TokenKind.RIGHT_PAREN, "to close the bracket")
        return expression

    def _parse_variable(self, token: Token) -> tree.Expression:
        if token.text not in VARIABLE_TYPES:
            known = ", ".join(f"${name}" for name in VARIABLE_TYPES)
            raise bad_query_at(
                f"there is no variable ${token.text[:40]}; there are {known}", token.position
            )
        self.cursor.info.variables.add(token.text)
        return tree.Variable(token.position, token.text)

    def _parse_call(self, token: Token) -> tree.Expression:
        function = CORE_FUNCTIONS.get(token.text)
        if function is None:
            raise bad_query_at(
                f"there is no function {token.text[:40]}() in XPath 1.0", token.position
            )
        arguments, punctuation = self._parse_arguments(token)
        if len(arguments) < function.min_arguments or (
            function.max_arguments is not None and len(arguments) > function.max_arguments
        ):
            raise bad_query_at(
                f"{token.text}() takes {function.arity_text}, not {len(arguments)}", token.position
            )
        if function.requires_node_set and arguments:
            _require_node_set(arguments[0], f"the argument of {token.text}()", token.position)
        if not self.cursor.predicate_depth:
            if token.text in ("position", "last"):
                raise bad_query_at(
                    f"{token.text}() has a meaning in a predicate only", token.position
                )
            if function.reads_context and (not arguments or token.text in ("id", "lang")):
                self.cursor.info.reads_outer_context = True
        call = tree.FunctionCall(token.position, token.text, tuple(arguments))
        in_predicate = self.cursor.predicate_depth > 0
        record_call_rewrite(call, token, punctuation, self.cursor.info, in_predicate=in_predicate)
        return call

    def _parse_arguments(self, token: Token) -> tuple[list[tree.Expression], list[Token]]:
        arguments: list[tree.Expression] = []
        opening = self.cursor.expect(TokenKind.LEFT_PAREN, "after the function's name")
        punctuation = [opening]
        self.cursor.open_bracket(opening.position)
        if self.cursor.token.kind is not TokenKind.RIGHT_PAREN:
            arguments.append(self.parse_expression())
            while (comma := self.cursor.accept(TokenKind.COMMA)) is not None:
                punctuation.append(comma)
                arguments.append(self.parse_expression())
        self.cursor.close_bracket()
        closing = self.cursor.expect(
            TokenKind.RIGHT_PAREN, f"after the arguments of {token.text}()"
        )
        return arguments, [*punctuation, closing]

    # ---------------------------------------------------------------- location paths

    def _parse_absolute(self) -> tree.Path:
        cursor = self.cursor
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

    def _parse_relative(self) -> tree.Path:
        cursor = self.cursor
        position = cursor.token.position
        if not cursor.predicate_depth:
            cursor.info.reads_outer_context = True
        return tree.Path(position, tree.PathStart.CONTEXT, tuple(self._parse_steps([])))

    def _parse_continuation(self, start: tree.Expression, position: int) -> tree.Path:
        cursor = self.cursor
        if cursor.accept(TokenKind.SLASH):
            steps = self._parse_steps([])
        else:
            _, steps = self._parse_double_slash()
        return tree.Path(position, start, tuple(steps))

    def _parse_predicates(self) -> tuple[tree.Expression, ...]:
        cursor = self.cursor
        found: list[tree.Expression] = []
        while cursor.token.kind is TokenKind.LEFT_BRACKET:
            cursor.open_bracket(cursor.advance().position)
            cursor.predicate_depth += 1
            found.append(self.parse_expression())
            cursor.predicate_depth -= 1
            cursor.close_bracket()
            cursor.expect(TokenKind.RIGHT_BRACKET, "after the predicate")
        return tuple(found)

    def _parse_double_slash(self) -> tuple[Token, list[tree.Step]]:
        last = self.cursor.advance()
        steps = [self._descendant_step(last)]
        if (again := self.cursor.accept(TokenKind.SLASH, TokenKind.DOUBLE_SLASH)) is not None:
            last = again
            if again.kind is TokenKind.DOUBLE_SLASH:
                steps.append(self._descendant_step(again))
        return last, self._parse_steps(steps)

    def _parse_steps(self, steps: list[tree.Step]) -> list[tree.Step]:
        cursor = self.cursor
        steps.append(self._parse_step())
        while (slash := cursor.accept(TokenKind.SLASH, TokenKind.DOUBLE_SLASH)) is not None:
            if slash.kind is TokenKind.DOUBLE_SLASH:
                steps.append(self._descendant_step(slash))
            steps.append(self._parse_step())
        return steps

    def _descendant_step(self, slashes: Token) -> tree.Step:
        self.cursor.count_step(slashes.position)
        return tree.Step(slashes.position, slashes.end, tree.Axis.DESCENDANT_OR_SELF, tree.ANY_NODE)

    def _parse_step(self) -> tree.Step:
        cursor = self.cursor
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
        test, end = self._parse_node_test(axis)
        return tree.Step(first.position, end, axis, test, self._parse_predicates())

    def _parse_node_test(self, axis: tree.Axis) -> tuple[tree.NodeTest, int]:
        cursor = self.cursor
        token = cursor.token
        if token.kind is TokenKind.NAME_TEST:
            cursor.advance()
            prefix, colon, local = token.text.rpartition(":")
            name = None if local == "*" else local
            if colon:
                cursor.info.prefixes.setdefault(prefix, token.position)
                is_default = prefix == self._default_prefix
                return tree.NameTest(prefix, name, is_default), token.end
            if name is not None and axis not in (tree.Axis.ATTRIBUTE, tree.Axis.NAMESPACE):
                cursor.info.unprefixed.append(token.position)
            return tree.NameTest(None, name), token.end
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


def _join_chain(operator: Token, left: tree.Expression, right: tree.Expression) -> tree.Chain:
    if isinstance(left, tree.Chain) and left.operator == operator.text:
        return tree.Chain(left.position, operator.text, (*left.operands, right))
    return tree.Chain(operator.position, operator.text, (left, right))


def _require_node_set(expression: tree.Expression, what: str, position: int) -> None:
    kind = value_type(expression)
    if kind is not tree.ValueType.NODE_SET:
        raise bad_query_at(f"{what} must be a node-set, this is a {kind.value}", position)
