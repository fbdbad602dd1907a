"""The drop-in of both stacks."""

from two_parents.stop_and_wait import stop_and_wait
from two_parents.transport import two_parents

__all__ = ["stop_and_wait", "two_parents"]
