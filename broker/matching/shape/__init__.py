"""Shapes: documents that differ in their values alone, recognised without a parse."""
