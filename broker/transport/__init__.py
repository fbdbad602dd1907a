"""Protocol stacks built of layers: the interface of a layer, the driver, and the standard layers.

All of this transports lists of `bytes` without their meaning. `layer` defines a layer, `stack`
checks that layers fit together, `driver` runs them. Each sub-package is one layer or one family of
layers. `docs/transport.md` shows how to write a layer.
"""
