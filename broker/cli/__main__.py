"""`python -m broker.cli` is `xmlbroker`."""

from __future__ import annotations

from broker.cli import main

main(prog_name="xmlbroker")
