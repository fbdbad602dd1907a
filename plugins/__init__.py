"""Protocol stacks, one folder each; `broker` finds them only through `twisted.plugin`."""
