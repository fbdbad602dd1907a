"""Protocol stacks of layers: they transport lists of `bytes` without their meaning.

`docs/transport.md` shows how to write a layer.
"""
