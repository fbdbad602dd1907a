"""Old import path of `broker.client.worker`, kept for one version."""

from __future__ import annotations

from broker.client.worker import DEFAULT_WORKING as AS_USUAL
from broker.client.worker import Working
from broker.client.worker import WorkResult as Worked

__all__ = ("AS_USUAL", "Worked", "Working")
