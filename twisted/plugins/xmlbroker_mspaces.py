"""The drop-in of the `mspaces` stack."""

from plugins.mspaces.stack import mspaces

__all__ = ["mspaces"]
