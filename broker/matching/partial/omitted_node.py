"""Comments and processing instructions, which trees of documents leave out.

Texts, names, attributes and string-values are the same without them, and a remark between two
texts keeps these apart. What a query can tell is whether a remark is in a node-set: by one of the
tests that remarks pass, on one of the axes that lead to them.
"""

from __future__ import annotations

from broker.matching.partial.axis import root_of
from broker.matching.query.tree import Axis, KindTest, Step
from broker.matching.shape.tree import Node, NodeKind

_AXES_TO_OMITTED_NODES = frozenset(
    {
        Axis.CHILD,
        Axis.DESCENDANT,
        Axis.DESCENDANT_OR_SELF,
        Axis.FOLLOWING,
        Axis.FOLLOWING_SIBLING,
        Axis.PRECEDING,
        Axis.PRECEDING_SIBLING,
    }
)
#: Axes that lead nowhere from a remark, so that none is left behind a step along them.
_AXES_FROM_PARENTS = frozenset({Axis.ATTRIBUTE, Axis.CHILD, Axis.DESCENDANT})


class DocumentRoot(Node):
    """The root node of a document that had remarks, if `remarked`: they are not in its tree."""

    __slots__ = ("has_omitted_nodes",)

    def __init__(self) -> None:
        super().__init__(NodeKind.ROOT, None, 0)
        self.has_omitted_nodes = False


def omits_nodes(node: Node) -> bool:
    """Whether there are remarks in the document that the node is in."""
    root = root_of(node)
    return isinstance(root, DocumentRoot) and root.has_omitted_nodes


def may_select_omitted_nodes(step: Step, following: Step | None) -> bool:
    """Whether a query can tell by a step what remarks a document has.

    `following` is the path's next step: the first of `//a`, which stands for
    `descendant-or-self::node()/child::a`, comes upon remarks, and the second leaves them behind.
    """
    test = step.test
    if (
        not isinstance(test, KindTest)
        or test.kind == "text"
        or step.axis not in _AXES_TO_OMITTED_NODES
    ):
        return False
    return bool(step.predicates) or following is None or following.axis not in _AXES_FROM_PARENTS
