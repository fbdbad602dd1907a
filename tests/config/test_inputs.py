from __future__ import annotations

import pytest

from broker.config import load_text
from broker.config.input_rules import find_node_address
from broker.config.inputs import MAX_INPUTS, InputSettings
from broker.errors import ConfigurationError

SECRET = "SCRAM-SHA-256$100000:" + "A" * 24 + ("$" + "A" * 43 + "=:" + "A" * 43 + "=")
URL = 'sources = ["https://example.org/siri.xml"]'
ACCOUNTS = f'[accounts.feed]\nsecret = "{SECRET}"\n'
LOGIN = 'account = "feed"\nsecret_file = "s"'


def test_a_table_has_all_options_of_an_input() -> None:
    settings = load_text(
        f"""
        [inputs.siri]
        {URL}
        every = "90s"
        stream = "buses"
        type = ["siri", "2.0"]
        split = "//s:VehicleActivity"
        copy = ["summary=/s:Siri/@version"]
        namespaces = {{ s = "http://www.siri.org.uk/siri", "" = "urn:d" }}
        id = "//s:VehicleRef"
        changed = true
        [inputs.spool]
        sources = ["in", "/srv/in"]
        watch = true
        """,
        "node.toml",
    )
    assert settings.inputs == (
        InputSettings(
            *("siri", ("https://example.org/siri.xml",)),
            every=90.0,
            stream="buses",
            type=("siri", "2.0"),
            split="//s:VehicleActivity",
            copy=("summary=/s:Siri/@version",),
            namespaces={"s": "http://www.siri.org.uk/siri", "": "urn:d"},
            id="//s:VehicleRef",
            changed=True,
        ),
        InputSettings("spool", ("in", "/srv/in"), watch=True),
    )


@pytest.mark.parametrize(
    ("keys", "rest", "error", "line"),
    [
        ("watch = true", "", "inputs.a.sources is missing", 1),
        ("sources = []", "", "inputs.a.sources must be a list of 1 to 64", 2),
        ('sources = [""]', "", "inputs.a.sources must be a list of 1 to 64", 2),
        ("sources = [1]", "", "each a folder or an address, found [1]", 2),
        (f"{URL}\nsteam = 1", "", "did you mean inputs.a.stream?", 3),
        (f"{URL}\nevery = 0", "", "inputs.a.every must be a duration from 1s to 7d", 3),
        (f'{URL}\nevery = "8d"', "", "inputs.a.every must be a duration", 3),
        (f'{URL}\nwatch = "yes"', "", "inputs.a.watch must be true or false", 3),
        (f'{URL}\nstream = "a..b"', "", "inputs.a.stream must be a stream", 3),
        (f'{URL}\ntype = ["siri"]', "", "inputs.a.type must be a name and a version", 3),
        (f'{URL}\ntype = ["a b", "1"]', "", "'a b' is not an event type", 3),
        (f'{URL}\nsecurity_level = "top"', "", "inputs.a.security_level must be", 3),
        (f'{URL}\nid = "\\u0000"', "", "inputs.a.id must be an XPath expression", 3),
        (f"{URL}\nnamespaces = {{ s = 1 }}", "", "inputs.a.namespaces must be a table", 3),
        (f"{URL}\npublished_max = 0", "", "inputs.a.published_max must be a whole number", 3),
        ('sources = ["in"]', "", "for a folder set inputs.a.watch = true", 2),
        (f"{URL}\nwatch = true", "", "not a folder, but inputs.a.watch is true", 2),
        (URL, ACCOUNTS, "inputs.a.account is missing: the node has accounts", 1),
        (f'{URL}\naccount = "feed"', ACCOUNTS, "inputs.a.secret_file is missing", 3),
        (f'{URL}\nsecret_file = "s"', ACCOUNTS, "inputs.a.account is missing: whose", 3),
        (f"{URL}\n{LOGIN}", "", "inputs.a.account is 'feed', but there is no [accounts.feed]", 3),
        (
            f'{URL}\naccount = "fed"\nsecret_file = "s"',
            ACCOUNTS,
            "did you mean 'feed'?",
            3,
        ),
        (
            f"{URL}\n{LOGIN}",
            f"{ACCOUNTS}[inputs.b]\n{URL}\n{LOGIN}",
            "inputs.b and inputs.a have the client id feed",
            9,
        ),
        (
            URL,
            '[listen]\nendpoints = ["tcp:port=0:interface=127.0.0.1"]',
            "inputs.a.node is missing: listen.endpoints has no unix socket",
            1,
        ),
    ],
)
def test_an_error_names_the_key_and_the_line(keys: str, rest: str, error: str, line: int) -> None:
    with pytest.raises(ConfigurationError) as raised:
        load_text(f"[inputs.a]\n{keys}\n{rest}", "node.toml")
    assert error in raised.value.text
    assert raised.value.line == line


def test_inputs_are_bounded_and_have_names_of_files() -> None:
    tables = "".join(f"[inputs.i{number}]\n{URL}\n" for number in range(MAX_INPUTS))
    assert len(load_text(tables, "node.toml").inputs) == MAX_INPUTS
    with pytest.raises(ConfigurationError, match=f"more than {MAX_INPUTS} tables") as raised:
        load_text(f"{tables}[inputs.last]\n{URL}\n", "node.toml")
    assert raised.value.line == 2 * MAX_INPUTS + 1
    with pytest.raises(ConfigurationError, match="must be named by 1 to 64 of A-Z"):
        load_text(f'[inputs."../a"]\n{URL}\n', "node.toml")


def test_inputs_of_one_account_have_different_client_ids() -> None:
    second = f'[inputs.b]\n{URL}\n{LOGIN}\nclient_id = "feed-b"\n'
    settings = load_text(f"[inputs.a]\n{URL}\n{LOGIN}\n{second}{ACCOUNTS}", "node.toml")
    assert [each.client_id for each in settings.inputs] == ["", "feed-b"]


@pytest.mark.parametrize(
    ("endpoints", "proxies", "address"),
    [
        (["tcp:port=8765:interface=127.0.0.1"], [], "tcp:127.0.0.1:8765"),
        (["tcp:8765:interface=localhost"], [], "tcp:localhost:8765"),
        (["tcp:8765:interface=\\\\:\\\\:1"], [], "tcp:::1:8765"),
        (["tcp:port=0:interface=127.0.0.1", "unix:/run/x.sock:mode=600"], [], "unix:/run/x.sock"),
        (["tcp:1:interface=127.0.0.1", "unix:x"], ["127.0.0.0/8"], "unix:x"),
        (["tcp:1:interface=127.0.0.1", "unix:x"], ["10.0.0.0/8", "::2"], "tcp:127.0.0.1:1"),
        (["tcp:1:interface=127.0.0.1"], ["0.0.0.0/0"], None),
        (["ssl:1:interface=127.0.0.1:privateKey=k"], [], None),
    ],
)
def test_an_input_connects_to_the_first_plain_endpoint_of_this_machine(
    endpoints: list[str], proxies: list[str], address: str | None
) -> None:
    quoted = ", ".join(f'"{each}"' for each in endpoints)
    listen = f"[listen]\nendpoints = [{quoted}]\nproxies = {proxies}"
    assert find_node_address(load_text(listen, "node.toml")) == address
