"""Parser for queries: tokens to the typed tree (XPath 1.0, section 3).

Precedence uses two stacks. So a bracket costs few frames, and `max_nesting` keeps the deepest query
far from the recursion limit.
"""

from __future__ import annotations

from broker.matching.query import tree
from broker.matching.query.cursor import Cursor, ParseInfo
from broker.matching.query.extension_function import record_call_rewrite
from broker.matching.query.lexer import Token, TokenKind, bad_query_at
from broker.matching.query.limits import QueryLimits
from broker.matching.query.number import parse_number
from broker.matching.query.path_parser import STEP_START_KINDS, PathParser
from broker.matching.query.value_type import CORE_FUNCTIONS, VARIABLE_TYPES, value_type

_PRECEDENCE = {
    "or": 1,
    "and": 2,
    "=": 3,
    "!=": 3,
    "<": 4,
    "<=": 4,
    ">": 4,
    ">=": 4,
    "+": 5,
    "-": 5,
    "*": 6,
    "div": 6,
    "mod": 6,
}
_PRIMARY_KINDS = (
    TokenKind.NUMBER,
    TokenKind.LITERAL,
    TokenKind.VARIABLE,
    TokenKind.FUNCTION,
    TokenKind.LEFT_PAREN,
)


def parse_expression(text: str, limits: QueryLimits) -> tuple[tree.Expression, ParseInfo]:
    """Parse a whole query; return its tree and the collected facts, or raise `BadQuery`."""
    parser = _Parser(Cursor(text, limits))
    expression = parser.parse_expression()
    parser.expect_end()
    return expression, parser.cursor.info


class _Parser:
    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self._paths = PathParser(cursor, self.parse_expression)

    def expect_end(self) -> None:
        token = self.cursor.token
        if token.kind is not TokenKind.END:
            raise bad_query_at(
                f"expected an operator or the end of the query, found {token}", token.position
            )

    def parse_expression(self) -> tree.Expression:
        operands = [self._parse_unary()]
        operators: list[Token] = []
        while (token := self.cursor.token).kind is TokenKind.OPERATOR and token.text in _PRECEDENCE:
            self.cursor.advance()
            while operators and _PRECEDENCE[operators[-1].text] >= _PRECEDENCE[token.text]:
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
            return self._paths.parse_absolute()
        if token.kind not in _PRIMARY_KINDS:
            if token.kind not in STEP_START_KINDS:
                raise bad_query_at(f"expected an operand, found {token}", token.position)
            return self._paths.parse_relative()
        filtered = self._parse_primary(token)
        predicates = self._paths.parse_predicates()
        if predicates:
            _require_node_set(filtered, "the expression before a predicate", token.position)
            filtered = tree.Filter(token.position, filtered, predicates)
        if self.cursor.token.kind in (TokenKind.SLASH, TokenKind.DOUBLE_SLASH):
            _require_node_set(filtered, "the expression before '/'", token.position)
            return self._paths.parse_continuation(filtered, token.position)
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


def _join_chain(operator: Token, left: tree.Expression, right: tree.Expression) -> tree.Chain:
    if isinstance(left, tree.Chain) and left.operator == operator.text:
        return tree.Chain(left.position, operator.text, (*left.operands, right))
    return tree.Chain(operator.position, operator.text, (left, right))


def _require_node_set(expression: tree.Expression, what: str, position: int) -> None:
    kind = value_type(expression)
    if kind is not tree.ValueType.NODE_SET:
        raise bad_query_at(f"{what} must be a node-set, this is a {kind.value}", position)
