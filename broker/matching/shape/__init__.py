"""Shapes: documents that differ only in their values, recognised without a parse."""
