"""The XML router of one node: input component, switch, output component (DCP D18)."""
