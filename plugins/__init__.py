"""Protocol stacks, one folder each; `broker` finds them through `twisted.plugin` alone.

A client's own session (socket - p2p) is part of `broker.wire` and no plug-in.
"""
