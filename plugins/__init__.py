"""Protocol stacks, one folder each; `broker` finds them only through `twisted.plugin`.

The stack of client sessions (socket - p2p) is part of `broker.wire` and no plug-in.
"""
