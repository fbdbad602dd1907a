"""The option `--namespace`."""

from __future__ import annotations

import json

import click
import pytest
from click.testing import CliRunner

from broker.cli.namespaces import namespace_option


@click.command()
@namespace_option
def show(namespaces: dict[str, str]) -> None:
    click.echo(json.dumps(namespaces))


def bind(*values: str) -> tuple[int, str]:
    result = CliRunner().invoke(show, [part for v in values for part in ("--namespace", v)])
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["s=http://www.siri.org.uk/siri"], {"s": "http://www.siri.org.uk/siri"}),
        (["http://www.siri.org.uk/siri"], {"": "http://www.siri.org.uk/siri"}),
        (["http://a.example/?v=1"], {"": "http://a.example/?v=1"}),
        (["urn:a=b", "é=urn:b"], {"": "urn:a=b", "é": "urn:b"}),
        (["p=urn:a", "p=urn:a"], {"p": "urn:a"}),
    ],
)
def test_a_binding_has_a_prefix_or_is_the_default(
    values: list[str], expected: dict[str, str]
) -> None:
    status, output = bind(*values)
    assert (status, json.loads(output)) == (0, expected)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["s"], "'s' is neither PREFIX=URI nor, for names without prefix, a URI such as"),
        ([""], "'' is neither PREFIX=URI nor"),
        (["s="], "'s=' is neither"),
        (["=urn:a"], "'=urn:a' is neither"),
        (["s:http://a.example"], "write s=http://a.example to bind the prefix 's'"),
        (["s=urn:a", "s=urn:b"], "the prefix 's' is given twice, with different URIs"),
        (["urn:a", "urn:b"], "the default namespace is given twice, with different URIs"),
    ],
)
def test_another_text_is_refused_with_the_way_to_write_it(values: list[str], message: str) -> None:
    status, output = bind(*values)
    assert status == 2
    assert message in " ".join(output.split())
