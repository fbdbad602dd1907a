"""XML Schemas of event types: part of a type's text, compiled and applied in a child process."""
