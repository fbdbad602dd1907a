"""Comments and processing instructions, which document trees omit.

All other values are the same without them; a text is still split at an omitted node. A query can
only observe them as members of a node-set, by a node test that they pass on an axis that reaches
them.
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
#: Axes that are empty for an omitted node, so the step behind drops it.
_AXES_FROM_PARENTS = frozenset({Axis.ATTRIBUTE, Axis.CHILD, Axis.DESCENDANT})


class DocumentRoot(Node):
    """Root node of a document; `has_omitted_nodes` if comments or instructions were omitted."""

    __slots__ = ("has_omitted_nodes",)

    def __init__(self) -> None:
        super().__init__(NodeKind.ROOT, None, 0)
        self.has_omitted_nodes = False


def omits_nodes(node: Node) -> bool:
    root = root_of(node)
    return isinstance(root, DocumentRoot) and root.has_omitted_nodes


def may_select_omitted_nodes(step: Step, following: Step | None) -> bool:
    """Return True if a query could observe omitted nodes by this step.

    `following` is the next step. The first step of `//a`, short for
    `descendant-or-self::node()/child::a`, selects omitted nodes; the second drops them.
    """
    test = step.test
    if (
        not isinstance(test, KindTest)
        or test.kind == "text"
        or step.axis not in _AXES_TO_OMITTED_NODES
    ):
        return False
    return bool(step.predicates) or following is None or following.axis not in _AXES_FROM_PARENTS
