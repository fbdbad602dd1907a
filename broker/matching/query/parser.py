"""From tokens to the typed tree: the expressions of XPath 1.0, section 3.

Recursive descent for what has brackets, two stacks for what has precedence: so one bracket costs
few frames, and the limit on nesting keeps the deepest query far from the interpreter's own.
"""

from __future__ import annotations

from broker.matching.query.cursor import Cursor, Findings
from broker.matching.query.function_signature import FUNCTIONS
from broker.matching.query.lexer import Kind, Token, bad_query
from broker.matching.query.limits import QueryLimits
from broker.matching.query.number import number_of
from broker.matching.query.path_parser import STEP_STARTS, PathParser
from broker.matching.query.extension_function import note_call
from broker.matching.query.tree import (
    Binary,
    Chain,
    Expression,
    Filter,
    FunctionCall,
    Literal,
    Negation,
    Number,
    ValueType,
    Variable,
)
from broker.matching.query.value_type import value_type
from broker.matching.query.variables import VARIABLES

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
_PRIMARIES = (Kind.NUMBER, Kind.LITERAL, Kind.VARIABLE, Kind.FUNCTION, Kind.LEFT_PAREN)


def parse(text: str, limits: QueryLimits) -> tuple[Expression, Findings]:
    """The tree of a whole query and what the parser noticed; `BadQuery` with the position."""
    parser = _Parser(Cursor(text, limits))
    expression = parser.expression()
    parser.end()
    return expression, parser.cursor.findings


class _Parser:
    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self._paths = PathParser(cursor, self.expression)

    def end(self) -> None:
        token = self.cursor.token
        if token.kind is not Kind.END:
            raise bad_query(
                f"expected an operator or the end of the query, found {token}", token.position
            )

    def expression(self) -> Expression:
        operands = [self._unary()]
        operators: list[Token] = []
        while (token := self.cursor.token).kind is Kind.OPERATOR and token.text in _PRECEDENCE:
            self.cursor.take()
            while operators and _PRECEDENCE[operators[-1].text] >= _PRECEDENCE[token.text]:
                self._reduce(operands, operators.pop())
            operators.append(token)
            operands.append(self._unary())
        while operators:
            self._reduce(operands, operators.pop())
        return operands[0]

    def _reduce(self, operands: list[Expression], operator: Token) -> None:
        right, left = operands.pop(), operands.pop()
        if operator.text in ("and", "or"):
            operands.append(_chain(operator, left, right))
        else:
            if isinstance(left, Binary) or isinstance(right, Binary):
                self.cursor.count_operator(operator.position)
            operands.append(Binary(operator.position, operator.text, left, right))

    def _unary(self) -> Expression:
        first = self.cursor.token
        signs = 0
        while self._at_operator("-"):
            self.cursor.take()
            signs += 1
        operand = self._union()
        return Negation(first.position, operand, signs) if signs else operand

    def _union(self) -> Expression:
        left = self._path()
        while self._at_operator("|"):
            operator = self.cursor.take()
            _require_node_set(left, "the left side of '|'", operator.position)
            position = self.cursor.token.position
            right = self._path()
            _require_node_set(right, "the right side of '|'", position)
            left = _chain(operator, left, right)
        return left

    def _at_operator(self, text: str) -> bool:
        token = self.cursor.token
        return token.kind is Kind.OPERATOR and token.text == text

    def _path(self) -> Expression:
        token = self.cursor.token
        if token.kind in (Kind.SLASH, Kind.DOUBLE_SLASH):
            return self._paths.absolute()
        if token.kind not in _PRIMARIES:
            if token.kind not in STEP_STARTS:
                raise bad_query(f"expected an operand, found {token}", token.position)
            return self._paths.relative()
        filtered = self._primary(token)
        predicates = self._paths.predicates()
        if predicates:
            _require_node_set(filtered, "what stands before a predicate", token.position)
            filtered = Filter(token.position, filtered, predicates)
        if self.cursor.token.kind in (Kind.SLASH, Kind.DOUBLE_SLASH):
            _require_node_set(filtered, "what stands before '/'", token.position)
            return self._paths.onward(filtered, token.position)
        return filtered

    def _primary(self, token: Token) -> Expression:
        self.cursor.take()
        if token.kind is Kind.NUMBER:
            return Number(token.position, number_of(token.text))
        if token.kind is Kind.LITERAL:
            return Literal(token.position, token.text)
        if token.kind is Kind.VARIABLE:
            return self._variable(token)
        if token.kind is Kind.FUNCTION:
            return self._call(token)
        self.cursor.enter(token.position)
        expression = self.expression()
        self.cursor.leave()
        self.cursor.expect(Kind.RIGHT_PAREN, "to close the bracket")
        return expression

    def _variable(self, token: Token) -> Expression:
        if token.text not in VARIABLES:
            known = ", ".join(f"${name}" for name in VARIABLES)
            raise bad_query(
                f"there is no variable ${token.text[:40]}; there are {known}", token.position
            )
        self.cursor.findings.variables.add(token.text)
        return Variable(token.position, token.text)

    def _call(self, token: Token) -> Expression:
        function = FUNCTIONS.get(token.text)
        if function is None:
            raise bad_query(
                f"there is no function {token.text[:40]}() in XPath 1.0", token.position
            )
        arguments, marks = self._arguments(token)
        if len(arguments) < function.least or (
            function.most is not None and len(arguments) > function.most
        ):
            raise bad_query(
                f"{token.text}() takes {function.arity}, not {len(arguments)}", token.position
            )
        if function.node_set and arguments:
            _require_node_set(arguments[0], f"the argument of {token.text}()", token.position)
        if not self.cursor.predicates:
            if token.text in ("position", "last"):
                raise bad_query(f"{token.text}() has a meaning in a predicate only", token.position)
            if function.reads_context and (not arguments or token.text in ("id", "lang")):
                self.cursor.findings.outer_context = True
        call = FunctionCall(token.position, token.text, tuple(arguments))
        within = self.cursor.predicates > 0
        note_call(call, token, marks, self.cursor.findings, within=within)
        return call

    def _arguments(self, token: Token) -> tuple[list[Expression], list[Token]]:
        """The arguments, and the brackets and commas around them."""
        arguments: list[Expression] = []
        opening = self.cursor.expect(Kind.LEFT_PAREN, "after the function's name")
        marks = [opening]
        self.cursor.enter(opening.position)
        if self.cursor.token.kind is not Kind.RIGHT_PAREN:
            arguments.append(self.expression())
            while (comma := self.cursor.take_if(Kind.COMMA)) is not None:
                marks.append(comma)
                arguments.append(self.expression())
        self.cursor.leave()
        closing = self.cursor.expect(Kind.RIGHT_PAREN, f"after the arguments of {token.text}()")
        return arguments, [*marks, closing]


def _chain(operator: Token, left: Expression, right: Expression) -> Chain:
    if isinstance(left, Chain) and left.operator == operator.text:
        return Chain(left.position, operator.text, (*left.operands, right))
    return Chain(operator.position, operator.text, (left, right))


def _require_node_set(expression: Expression, what: str, position: int) -> None:
    kind = value_type(expression)
    if kind is not ValueType.NODE_SET:
        raise bad_query(f"{what} must be a node-set, this is a {kind.value}", position)
