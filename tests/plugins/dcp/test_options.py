"""Options that do not fit together, as a configuration file has them."""

from __future__ import annotations

import attrs
import pytest

from broker.config.toml import load_text
from broker.errors import ConfigurationError
from plugins.dcp.options import DcpOptions

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
            'root_name = "asdi.example"\nparents = 1\nconfirm = true',
            "confirm has no meaning with one parent",
        ),
        (
            'roots = ["127.0.0.1:8770"]\nroot_port = 7',
            "root_port has no meaning without root_name",
        ),
        (
            'root_name = "asdi.example"\nselector = "divers"',
            "selector: no parent selector 'divers' is installed, did you mean 'diverse'? there are",
        ),
        (
            'root_name = "asdi.example"\nparents = "many"',
            'stacks.mesh.parents must be a whole number from 1 to 8, or "auto", found "many"',
        ),
        (
            'root_name = "asdi.example"\nparents = "auto"\nloss_target = 0',
            "stacks.mesh.loss_target must be a number from 1e-09 to 0.1",
        ),
        (
            'root_name = "asdi.example"\nparents = 3\nloss_target = 1e-4',
            'loss_target has no meaning without parents = "auto"',
        ),
        (
            'root_name = "asdi.example"\nmulticast = "224.0.0.1:8771"',
            "stacks.mesh.multicast must be an address in 239.0.0.0/8 and a port such as "
            '"239.77.0.1:8771", or "", found "224.0.0.1:8771"',
        ),
        (
            'root_name = "asdi.example"\nmulticast = "239.255.255.250:8771"',
            "239.255.255.250 to the 15th address behind it are not in 239.0.0.0/8",
        ),
        ('root_name = "asdi.example"\nmulticast = "239.1.1.1"', "stacks.mesh.multicast must be"),
        ('root_name = "asdi.example"\nmulticast = 5', "stacks.mesh.multicast must be"),
        ('root_name = "asdi example"', "stacks.mesh.root_name must be a DNS name such as"),
    ],
)
def test_options_that_do_not_fit_are_named(options: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as wrong:
        load_text(_STACK + options, "node.toml")
    assert sentence in wrong.value.text and wrong.value.line >= 1


def test_groups_need_an_ipv4_address() -> None:
    text = '[stacks.mesh]\nuse = "dcp"\nroot_name = "asdi.example"\nmulticast = "239.1.1.1:8771"\n'
    (instance,) = load_text(f'{text}udp = "10.0.0.7:8770"', "node.toml").stacks
    assert isinstance(instance.options, DcpOptions)
    assert instance.options.make_settings(clearance=2).multicast == "239.1.1.1:8771"
    with pytest.raises(ConfigurationError, match=r"IPv4 address in udp, found \[fd00::7\]:8770"):
        load_text(f'{text}udp = "[fd00::7]:8770"', "node.toml")


def test_a_dns_name_stands_for_the_roots() -> None:
    (instance,) = load_text(_STACK + 'root_name = "asdi.example"', "node.toml").stacks
    assert getattr(instance.options, "root_name", None) == "asdi.example"


def test_a_number_of_parents_by_loss_begins_with_two() -> None:
    text = _STACK + 'root_name = "asdi.example"\nparents = "auto"\nloss_target = 1e-4'
    (instance,) = load_text(text, "node.toml").stacks
    assert isinstance(instance.options, DcpOptions)
    settings = instance.options.make_settings(clearance=2)
    assert (settings.parents, settings.loss_target) == (2, 1e-4)
    fixed = attrs.evolve(instance.options, parents=3, loss_target=1e-6).make_settings(clearance=2)
    assert (fixed.parents, fixed.loss_target) == (3, 0.0)
