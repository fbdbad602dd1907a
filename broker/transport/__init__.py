"""Protocol stacks out of layers: the contract of a layer, the driver, and the standard layers.

Everything here is about lists of `bytes`; what they mean is known higher up. `layer` says what a
layer is, `stack` checks that layers fit, `driver` runs them, and each sub-package is one layer or
one family of them. `docs/transport.md` shows how to write one.
"""
