"""Random DTDs, valid documents and queries from one seed."""

from __future__ import annotations

from random import Random

NAMES = ("a", "b", "c", "p:d", "e")
ATTRIBUTES = ("k", "v", "p:w")
VALUES = ("x", "y", "7", "")
ENVELOPE = (
    '<!ENTITY % Mspaces.envelope PUBLIC "-//xmlbroker//ELEMENTS Mspaces Envelope 1.1//EN" '
    '"mspaces-1.1.mod">\n%Mspaces.envelope;\n'
)


class GeneratedType:
    """A DTD whose elements contain each other at random, and a generator of its documents."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.payloads = self.random.sample(NAMES, self.random.choice((1, 1, 2)))
        self.optional = self.random.random() < 0.3
        self.models = {name: self._model() for name in NAMES}
        self.attributes = {name: self._attributes() for name in NAMES}

    @property
    def text(self) -> bytes:
        content = " | ".join(self.payloads)
        parts = [
            f'<!ENTITY % Mspaces.content ", ({content}){"?" if self.optional else ""}">\n',
            ENVELOPE,
        ]
        for name in NAMES:
            kind, names = self.models[name]
            model = {
                "empty": "EMPTY",
                "any": "ANY",
                "text": "(#PCDATA)",
                "mixed": f"(#PCDATA{''.join(f' | {each}' for each in names)})*",
                "sequence": f"({', '.join(names)})",
                "choice": f"({' | '.join(names)})",
            }[kind]
            parts.append(f"<!ELEMENT {name} {model}>\n")
            declared = [f"{key} {rule}" for key, (rule, _) in self.attributes[name].items()]
            parts.append(f"<!ATTLIST {name} xmlns:p CDATA #FIXED 'urn:p' {' '.join(declared)}>\n")
        return "".join(parts).encode()

    def payload(self) -> bytes | None:
        """Return a valid payload or None. Raises `RecursionError` if it gets too deep."""
        if self.optional and self.random.random() < 0.3:
            return None
        return self._write(self.random.choice(self.payloads), 0, ' xmlns:p="urn:p"').encode()

    def _model(self) -> tuple[str, list[str]]:
        kind = self.random.choice(
            ("empty", "text", "text", "mixed", "sequence", "sequence", "choice")
            + (("any",) if self.random.random() < 0.4 else ())
        )
        names = self.random.sample(NAMES, self.random.randint(1, 3))
        if kind in ("sequence", "choice"):
            names = [name + self.random.choice(("", "?", "?", "*", "+")) for name in names]
        return kind, names

    def _attributes(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        found: dict[str, tuple[str, tuple[str, ...]]] = {}
        for name in self.random.sample(ATTRIBUTES, self.random.randint(0, 2)):
            rule, values = self.random.choice(
                (
                    ("CDATA #IMPLIED", ("", *VALUES)),
                    ("CDATA #REQUIRED", VALUES),
                    ("(x | y) #IMPLIED", ("x", "y")),
                    ("(x | 7) 'x'", ("x", "7")),
                    ("CDATA #FIXED '7'", ("7",)),
                    ("NMTOKEN 'y'", ("x", "7")),
                )
            )
            found[name] = (rule, values)
        return found

    def _write(self, name: str, depth: int, declaration: str = "") -> str:
        if depth > 8:
            raise RecursionError
        attributes = declaration
        for key, (rule, values) in self.attributes[name].items():
            if "REQUIRED" in rule or self.random.random() < 0.5:
                attributes += f' {key}="{self.random.choice(values)}"'
        kind, names = self.models[name]
        inner = self._inner(kind, names, depth)
        return f"<{name}{attributes}>{inner}</{name}>" if inner else f"<{name}{attributes}/>"

    def _inner(self, kind: str, names: list[str], depth: int) -> str:
        some = self.random.choice((0, 0, 1, 2)) if depth < 5 else 0
        if kind == "empty":
            return ""
        if kind == "text":
            return self.random.choice(VALUES)
        if kind in ("mixed", "any"):
            names = list(NAMES) if kind == "any" else names
            inner = [self._write(self.random.choice(names), depth + 1) for _ in range(some)]
            return "".join(self.random.choice(VALUES) + each for each in inner)
        if kind == "choice":
            names = [self.random.choice(names)]
        space = self.random.choice(("", "", " ", "<!--r-->", "<?t i?>"))
        return space + "".join(self._occurrences(name, depth) + space for name in names)

    def _occurrences(self, name: str, depth: int) -> str:
        least, most = {"?": (0, 1), "*": (0, 2), "+": (1, 2)}.get(name[-1], (1, 1))
        count = self.random.randint(least, most) if depth < 5 else least
        return "".join(self._write(name.rstrip("?*+"), depth + 1) for _ in range(count))


_AXES = (
    *("child", "parent", "descendant", "descendant-or-self", "parent", "ancestor"),
    *("ancestor-or-self", "following-sibling", "preceding-sibling", "following", "preceding"),
    *("self", "namespace"),
)


class GeneratedQueries:
    """Random queries that use the same names."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def query(self) -> str:
        return self._boolean(2)

    def _name(self) -> str:
        return self._random.choice((*NAMES, *NAMES, "nosuch", "*", "p:*", "d"))

    def _step(self, depth: int) -> str:
        choose = self._random.choice
        kind = self._random.random()
        if kind < 0.2:
            step = "@" + choose((*ATTRIBUTES, *ATTRIBUTES, "*", "nosuch", "w"))
        elif kind < 0.3:
            step = choose(("text()", "..", ".", "node()", "comment()"))
            if step in ("..", "."):
                return step
        elif kind < 0.6:
            step = f"{choose(_AXES)}::{choose((self._name(), 'node()'))}"
        else:
            step = self._name()
        if depth and self._random.random() < 0.35:
            step += f"[{self._predicate(depth - 1)}]"
        return step

    def _predicate(self, depth: int) -> str:
        if self._random.random() < 0.2:
            return self._random.choice(("1", "2", "0", "last()", "position() = 1", "1.5"))
        return self._boolean(depth)

    def _path(self, depth: int) -> str:
        steps = [self._step(depth) for _ in range(self._random.randint(1, 3))]
        start = self._random.choice(("", "", "/", "//", "/Mspaces:Event/", "/Mspaces:Event//"))
        path = start + self._random.choice(("/", "/", "//")).join(steps)
        return f"({path})[1]" if self._random.random() < 0.05 else path

    def _value(self, depth: int) -> str:
        choose = self._random.choice
        return choose(
            (
                "'x'",
                "'7'",
                "''",
                "7",
                "3 + 4",
                "-1",
                "true()",
                f"count({self._path(depth)})",
                f"string({self._path(depth)})",
                f"string-length({self._path(depth)})",
                f"number({self._path(depth)})",
                f"sum({self._path(depth)})",
                f"local-name({self._path(depth)})",
                f"name({self._path(depth)})",
                "local-name()",
                f"{self._path(depth)} | {self._path(depth)}",
                "$Securitylevel",
                "$EventType",
                "'a'",
                "'d'",
                "'made'",
            )
        )

    def _boolean(self, depth: int) -> str:
        choose = self._random.choice
        kind = self._random.random()
        if kind < 0.06:
            return f"not(//@{choose(ATTRIBUTES)} {choose(('=', '!='))} {choose(VALUES)!r})"
        if kind < 0.12:
            return f"//{self._name()}/{choose(('parent', 'ancestor'))}::{self._name()}"
        if kind < 0.18:
            return f"not(//*[{choose(('1', '2', '@k', 'a'))}][{choose(('@v', 'p:d', 'self::a'))}])"
        if kind < 0.35:
            return self._path(depth)
        if kind < 0.7:
            operator = choose(("=", "=", "!=", "<", ">", "<=", ">="))
            left, right = self._path(depth), self._value(max(depth - 1, 0))
            if self._random.random() < 0.3:
                left = self._value(max(depth - 1, 0))
            return (
                f"{left} {operator} {right}"
                if self._random.random() < 0.8
                else (f"{right} {operator} {left}")
            )
        if kind < 0.8:
            return f"not({self._boolean(max(depth - 1, 0))})"
        if kind < 0.95 and depth:
            return f"{self._boolean(depth - 1)} {choose(('and', 'or'))} {self._boolean(depth - 1)}"
        function = choose(("contains", "starts-with"))
        return f"{function}({self._path(depth)}, {choose(VALUES)!r})"
