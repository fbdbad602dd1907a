"""The archiver: a child process that copies a node's log into the archive (DESIGN 8)."""
