"""DCP: streams over redundant meshes, with several parents for each node.

`docs/protocols/dcp.md` describes packets, timers and states.
"""
