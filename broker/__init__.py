"""xmlbroker: a publish/subscribe network for structured XML events."""

__version__ = "0.1.0"
