"""Comments and processing instructions, which trees of documents leave out.

Texts, names, attributes and string-values are the same without them, and a remark between two
texts keeps these apart. What a query can tell is whether a remark is in a node-set: by one of the
tests that remarks pass, on one of the axes that lead to them.
"""

from __future__ import annotations

from broker.matching.partial.axis import root_of
from broker.matching.query.tree import Axis, KindTest, Step
from broker.matching.shape.tree import Node, NodeKind

_TO_REMARKS = frozenset(
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
_FROM_PARENTS = frozenset({Axis.ATTRIBUTE, Axis.CHILD, Axis.DESCENDANT})


class Document(Node):
    """The root node of a document that had remarks, if `remarked`: they are not in its tree."""

    __slots__ = ("remarked",)

    def __init__(self) -> None:
        super().__init__(NodeKind.ROOT, None, 0)
        self.remarked = False


def is_remarked(node: Node) -> bool:
    """Whether there are remarks in the document that the node is in."""
    root = root_of(node)
    return isinstance(root, Document) and root.remarked


def may_show(step: Step, following: Step | None) -> bool:
    """Whether a query can tell by a step what remarks a document has.

    `following` is the path's next step: the first of `//a`, which stands for
    `descendant-or-self::node()/child::a`, comes upon remarks, and the second leaves them behind.
    """
    test = step.test
    if not isinstance(test, KindTest) or test.kind == "text" or step.axis not in _TO_REMARKS:
        return False
    return bool(step.predicates) or following is None or following.axis not in _FROM_PARENTS
