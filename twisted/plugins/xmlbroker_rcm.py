"""The drop-in of the `rcm` link stack."""

from plugins.rcm.stack import rcm_links

__all__ = ["rcm_links"]
