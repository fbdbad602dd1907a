"""Options that do not fit together, as a configuration file has them."""

from __future__ import annotations

import pytest

from broker.config.toml import load_text
from broker.errors import ConfigurationError

_STACK = '[stacks.mesh]\nuse = "dcp"\nudp = "127.0.0.1:8770"\n'


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("", "either roots or root_name names the roots of the mesh; neither is set"),
        (
            'roots = ["127.0.0.1:8770"]\nroot_name = "asdi.example"',
            "either roots or root_name names the roots of the mesh; both are set",
        ),
        (
            'roots = ["127.0.0.1:8770"]\nroot_port = 7',
            "root_port has no meaning without root_name",
        ),
        (
            'root_name = "asdi.example"\nselector = "divers"',
            "selector: no parent selector 'divers' is installed, did you mean 'diverse'? there are",
        ),
        ('root_name = "asdi example"', "stacks.mesh.root_name must be a DNS name such as"),
    ],
)
def test_options_that_do_not_fit_are_named(options: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as wrong:
        load_text(_STACK + options, "node.toml")
    assert sentence in wrong.value.text and wrong.value.line >= 1


def test_a_dns_name_stands_for_the_roots() -> None:
    (instance,) = load_text(_STACK + 'root_name = "asdi.example"', "node.toml").stacks
    assert getattr(instance.options, "root_name", None) == "asdi.example"
