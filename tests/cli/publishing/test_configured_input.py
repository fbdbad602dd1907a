from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.cli.pub import command
from broker.cli.publishing.configured_input import find_input_faults, pub_arguments
from broker.config import load
from broker.errors import ConfigurationError

FOLDER = 'sources = ["in"]\nwatch = true'
URL = 'sources = ["https://example.org/a"]'


def read_options(path: Path, keys: str) -> dict[str, Any]:
    """Return the options of `pub` by name, as the command parses them."""
    path.write_text(f"[inputs.a]\n{keys}\n")
    (found,) = load(path, find_faults=find_input_faults).inputs
    name, *arguments = pub_arguments(found, "tcp:127.0.0.1:1", Path("a.db"))
    assert name == "pub"
    return command.make_context("pub", arguments).params


def test_pub_parses_the_arguments_as_the_settings_say(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hush")
    options = read_options(
        tmp_path / "node.toml",
        f"""sources = ["--in", "b"]
        watch = true
        stream = "buses"
        type = ["siri", "2.0"]
        security_level = "high"
        split = "//s:a"
        copy = ["summary=/b/@c"]
        namespaces = {{ s = "urn:s", "" = "urn:default" }}
        id = "s:id"
        time = "s:at"
        changed = true
        published_max = 7
        node = "tcp:localhost:2"
        account = "x"
        secret_file = "{tmp_path / "secret"}"
        client_id = "x-1" """,
    )
    expected = {
        "sources": ("--in", "b"),
        "watch": True,
        "every": None,
        "stream": "buses",
        "type_": ("siri", "2.0"),
        "security_level": "high",
        "split": "//s:a",
        "copies": ("summary=/b/@c",),
        "namespaces": {"s": "urn:s", "": "urn:default"},
        "id_": "s:id",
        "time_text": "s:at",
        "changed": True,
        "published": Path("a.db"),
        "published_max": 7,
        "supervised": True,
        "node": ("tcp:localhost:2",),
        "account": "x",
        "secret_file": tmp_path / "secret",
        "client_id": "x-1",
    }
    assert {key: options[key] for key in expected} == expected
    options = read_options(tmp_path / "node.toml", f'{URL}\nevery = "7d"\njson_payload = true')
    expected = {"every": 604800.0, "watch": False, "json_payload": True, "account": ""}
    assert {key: options[key] for key in expected} == expected
    assert options["node"] == ("tcp:127.0.0.1:1",)


@pytest.mark.parametrize(
    ("keys", "error", "line"),
    [
        (f'{FOLDER}\nsplit = "//a[1"', "inputs.a.split: split //a[1: expected ']'", 4),
        (f'{FOLDER}\nsplit = "//s:a"', "the prefix s is not bound: give namespaces s=URI", 4),
        (f'{FOLDER}\ncopy = ["summary=/a"]', "inputs.a.copy: copy needs split", 4),
        (f'{FOLDER}\nsplit = "//a"\ncopy = ["x=/a"]', "give summary=PATH or application-type", 5),
        (f'{FOLDER}\nid = "concat("', "inputs.a.id: id concat(: expected an operand", 4),
        (f'{FOLDER}\ntime = "f("', "inputs.a.time: time f(: ", 4),
        (f"{FOLDER}\nchanged = true", "inputs.a.changed: changed needs id", 4),
        (f'{FOLDER}\nnamespaces = {{ s = "urn:s" }}', "namespaces needs split, id or time", 4),
        (f'{FOLDER}\nid = "a"\nnamespaces = {{ "s=t" = "u" }}', "'s=t' can not be bound to 'u'", 5),
        (f'{FOLDER}\nid = "a"\nnamespaces = {{ "" = "u" }}', "'u' is neither PREFIX=URI nor", 5),
        (f'{FOLDER}\njson_payload = true\nsplit = "//a"', "json_payload takes JSON", 4),
        ('sources = ["https://u:p@example.org/"]', "an address with a user name is not", 2),
        (f'{URL}\nnode = "localhost:1"', "such as tcp:localhost:1", 3),
        (
            f'{URL}\nnode = "unix:x"\naccount = "a"\nsecret_file = "absent"',
            "inputs.a.secret_file: the secret can not be read from absent: No such file",
            5,
        ),
    ],
)
def test_a_check_of_pub_names_the_key_and_the_line(
    tmp_path: Path, keys: str, error: str, line: int
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read_options(tmp_path / "node.toml", keys)
    assert error in raised.value.text
    assert raised.value.line == line
