"""Protocol stacks that `broker` finds through `twisted.plugin`, one folder each.

A client's own session (socket - p2p) is part of `broker.session` and no plug-in, so nothing is
here yet: the first stack, `mspaces`, comes with the network of nodes.
"""
