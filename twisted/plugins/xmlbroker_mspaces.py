"""The drop-in of the `mspaces` link stack and stream transport."""

from plugins.mspaces.stack import mspaces
from plugins.mspaces.transport import mspaces_transport

__all__ = ["mspaces", "mspaces_transport"]
