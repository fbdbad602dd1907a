from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.config import defaults, load, load_text
from broker.config.key_location import key_name
from broker.errors import ConfigurationError
from broker.event.envelope import SecurityLevel
from broker.event.stream import StreamPattern
from plugins.mspaces.settings import MspacesSettings

SECRET = "SCRAM-SHA-256$100000:" + "A" * 24 + ("$" + "A" * 43 + "=:" + "A" * 43 + "=")
EVERYTHING = f"""
[node]
name = "zbw-1"
data = "data folder"

[listen]
endpoints = ["tcp:port=0:interface=127.0.0.1", "unix:node.socket"]

[limits]
max_sessions = 7
max_event_bytes = "64KiB"
handshake_timeout = "500ms"
session_lease = 0

[log]
max_age = "12h"
sync = false

[query]
max_cost = 10

[types]
undescribed = "accept"
folders = ["dtds"]
pointers = ["https://example.org/dtd/"]

[metrics]
endpoint = "tcp:port=9100"

[streams."asdi.>"]
acknowledge = "node"

[stacks.mspaces]
window_bytes = "1MiB"

[accounts.alice]
secret = ["{SECRET}", "{SECRET}"]
client_ids = ["alice", "alice-*"]
publish = ["asdi.>"]
subscribe = ["asdi.*.kzbw"]
administer = true
clearance = "high"

[accounts."bob@example.org"]
secret = "{SECRET}"
"""


def refusal(text: str) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as refused:
        load_text(text, "node.toml")
    return refused.value


def test_a_file_is_read_key_by_key() -> None:
    settings = load_text(EVERYTHING, "node.toml")
    assert (settings.node.name, settings.node.data) == ("zbw-1", Path("data folder"))
    assert settings.listen.endpoints[1] == "unix:node.socket"
    assert settings.limits.max_sessions == 7
    assert settings.limits.max_event_bytes == 65536
    assert settings.limits.handshake_timeout == 0.5
    assert settings.limits.session_lease == 0.0
    assert settings.limits.window_bytes == defaults().limits.window_bytes
    assert (settings.log.max_age, settings.log.sync) == (43200.0, False)
    assert settings.query.max_cost == 10
    assert settings.types.undescribed == "accept"
    assert settings.types.folders == (Path("dtds"),)
    assert settings.types.pointers == ("https://example.org/dtd/",)
    assert settings.metrics.endpoint == "tcp:port=9100"
    assert settings.streams[0].pattern == StreamPattern.parse("asdi.>")


def test_options_of_a_stack_reach_the_classes_of_its_plugins() -> None:
    stack = load_text(EVERYTHING, "node.toml").stack("mspaces")
    assert stack.link_options == MspacesSettings(window_bytes=2**20)
    assert load_text("", "node.toml").stack("mspaces").link_options is None


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ("[stacks.mspaces]\nwindow_bites = 3", "did you mean stacks.mspaces.window_bytes?"),
        ('[stacks.mspaces]\nuse = "mspace"', "no stack 'mspace' is installed, did you mean 'msp"),
        ("[stacks.radar]\n", "no stack 'radar' is installed; there are: dcp, mspaces"),
        ("[stacks.mspaces]\nwindow_bytes = 1", "must be a size from 64KiB to 1GiB"),
        ("[stacks.mspaces]\nliveness = 0.5", "liveness: must be more than keepalive"),
        ('[stacks.mspaces]\nlinks = "x"', "no stack 'x' is installed"),
        ('[stacks.mspaces]\nchannel = "tcp"', "stacks.mspaces.channel: its links have no choice"),
        ('[stacks.mspaces]\nchannel = "ip"', 'must be "" or "datagram" or "tcp" or "udp", found'),
        ('[stacks.mspaces]\nfeed = "x"', 'only "mspaces" can feed other stacks'),
        ('[stacks."a b"]\n', "must be named by 1 to 64 of"),
        ("[stacks]\nmspaces = 1", "stacks.mspaces must be a table, found 1"),
        (
            'stacks.radar = { use = "mspaces", window_bytes = 1 }',
            "must be a size from 64KiB to 1GiB",
        ),
        ('stacks.radar = { use = "mspaces", window_bites = 1 }', "mean stacks.radar.window_bytes?"),
        (
            'stacks.radar = { use = "mspaces", liveness = 0.5 }',
            "liveness: must be more than keepal",
        ),
        (
            'stacks.radar = { use = "mspaces", links = "mspace" }',
            "no stack 'mspace' is installed, did",
        ),
        (
            'stacks.radar = { use = "mspaces", channel = "tcp" }',
            "its links have no choice of a chann",
        ),
        ('[stacks.radar]\nfeed = "mspaces"\nuse = "mspaces"', "can feed other stacks"),
        ('[streams."a.>"]\nstack = "mspace"', 'no [stacks.mspace], did you mean "mspaces"?'),
        ('[streams."a.>"]\npromises = ["redundancy"]', "its guarantees: acknowledgement"),
    ],
)
def test_a_stack_that_can_not_work_is_refused_with_its_line(table: str, sentence: str) -> None:
    error = refusal("\n" + table)
    assert sentence in error.text
    assert error.line in (2, 3)


@pytest.mark.parametrize(
    ("keys", "links"),
    [
        ("", ""),
        ('links = "mspaces"', "mspaces"),
        ('links = "mspaces"\nwindow_bytes = "4 MiB"', "mspaces"),
        # Also the default value.
        ('window_bytes = "4 MiB"', "mspaces"),
        ("keepalive = 0.5", "mspaces"),
        ('clearance = "low"', ""),
    ],
)
def test_an_instance_of_the_default_transport_has_own_links_if_they_have_a_setting(
    keys: str, links: str
) -> None:
    text = f'[streams."radar.>"]\nstack = "radar"\n[stacks.radar]\nuse = "mspaces"\n{keys}\n'
    network = '[network]\ncluster = "alps"\nlisten = ["unix:other"]\n'
    text += f'{network}[stacks.mspaces]\nlinks = "mspaces"\n'
    settings = load_text(text, "node.toml")
    stack = settings.stack("radar")
    assert (stack.links, stack.has_own_links) == (links, bool(links))
    # The default stack has those of the network.
    assert not settings.stack("mspaces").has_own_links


def test_accounts_are_read_with_their_rights() -> None:
    alice, bob = load_text(EVERYTHING, "node.toml").accounts
    assert (alice.name, *map(str, alice.secret)) == ("alice", SECRET, SECRET)
    assert alice.client_ids == ("alice", "alice-*")
    assert alice.publish == (StreamPattern.parse("asdi.>"),)
    assert alice.subscribe == (StreamPattern.parse("asdi.*.kzbw"),)
    assert (alice.administer, alice.clearance) == (True, SecurityLevel.HIGH)
    assert bob.client_ids == ("bob@example.org",)
    assert (bob.publish, bob.subscribe, bob.administer) == ((), (), False)
    assert bob.clearance is SecurityLevel.MED


def test_the_previous_name_of_a_key_is_read_but_not_beside_the_present_one() -> None:
    settings = load_text("[limits]\nrefusals_kept = 7\n[network]\npatience = '1m'\n", "f")
    assert settings.limits.quarantine_files == 7
    assert settings.network.gap_timeout == 60.0
    with pytest.raises(ConfigurationError, match="refusals_kept are the same key") as refused:
        load_text("[limits]\nrefusals_kept = 7\nquarantine_files = 8\n", "f")
    assert refused.value.line == 3


def test_an_empty_file_gives_the_defaults() -> None:
    assert load_text("", "node.toml") == defaults()


def test_an_unknown_key_is_answered_with_the_nearest_and_its_line() -> None:
    error = refusal("# a comment\n[limits]\nmax_depth = 3\nmax_sesions = 3\n")
    assert error.text.startswith("node.toml: limits.max_sesions is unknown")
    assert "did you mean limits.max_sessions?" in error.text
    assert "window_bytes" in error.text
    assert (error.line, error.column) == (4, 1)


def test_an_unknown_table_is_answered_with_those_that_exist() -> None:
    error = refusal("[node]\n\n[limit]\n")
    assert "limit is unknown, did you mean limits?" in error.text
    assert error.line == 3


def test_an_unknown_key_that_is_like_no_other_is_not_guessed_at() -> None:
    assert "did you mean" not in refusal("[limits]\nzzz = 3\n").text


@pytest.mark.parametrize(
    ("text", "line", "parts"),
    [
        ('[limits]\n\nmax_sessions = "many"', 3, ["limits.max_sessions", "1 to 1000000", '"many"']),
        ("[limits]\nmax_sessions = true", 2, ["limits.max_sessions", "whole number", "true"]),
        ("[limits]\nmax_sessions = 0", 2, ["limits.max_sessions", "found 0"]),
        ("limits.max_sessions = 0", 1, ["limits.max_sessions", "found 0"]),
        ("limits = { max_sessions = 0 }", 1, ["limits.max_sessions", "found 0"]),
        ("limits = 3", 1, ["limits must be a table, found 3"]),
        ("[[limits]]\nmax_sessions = 3", 1, ["limits must be a table"]),
        ("streams = 3", 1, ["streams must be tables, each named by a stream pattern"]),
        ("[streams]\na = 3", 2, ["streams.a must be a table"]),
        ("accounts = [1]", 1, ["accounts must be tables", "found [1]"]),
        ('[log]\nmax_age = "7 weeks"', 2, ["log.max_age", "'weeks' is not one of"]),
        ("[log]\nmax_age = 2020-01-01", 2, ["log.max_age", "found 2020-01-01"]),
        ("[log]\nsync = 1", 2, ["log.sync must be true or false, found 1"]),
        ('[log]\nmax_bytes = "1kB"', 2, ["log.max_bytes", "from 1MiB"]),
        ("[query]\nmax_cost = nan", 2, ["query.max_cost", "a whole number from 1"]),
        ('[query]\nmax_run_time = "2h"', 2, ["query.max_run_time", "to 1m"]),
        ("[query]\nmax_share = 10", 2, ["query.max_share", "from 0.001 to 1", "found 10"]),
        ("[query]\nmax_share = nan", 2, ["query.max_share"]),
        ("[query]\nmax_share = true", 2, ["query.max_share", "found true"]),
        ('[node]\nname = "a/b"', 2, ["node.name", '"a/b"']),
        ('[node]\ndata = ""', 2, ["node.data", "folder"]),
        ("[node]\ndata = 7", 2, ["node.data", "found 7"]),
        ('[types]\nundescribed = "maybe"', 2, ['"refuse" or "accept"', '"maybe"']),
        ('[types]\npointers = [\n\n"ftp://example.org/"]', 4, ["types.pointers", "element 1"]),
        ('[types]\npointers = ["https://example.org"]', 2, ["end it in '/'"]),
        ('[types]\npointers = ["https://a@example.org/"]', 2, ["not have a user"]),
        ('[types]\npointers = "https://example.org/"', 2, ["a list"]),
        ('[validation]\nengine = "fast"', 2, ["validation.engine", '"switch" or "reference"']),
        ("[listen]\nendpoints = []", 2, ["listen.endpoints", "a list of 1 to 64"]),
        (
            '[listen]\nendpoints = ["unix:a",\n"udp:port=1"]',
            3,
            ["element 2", "'udp' is not one of"],
        ),
        ("[listen]\nendpoints = [\n3]", 3, ["listen.endpoints", "element 1"]),
        ('[metrics]\nendpoint = "9100"', 2, ["metrics.endpoint", '"9100"']),
        (
            '[streams."a.>"]\nacknowledge = "neighbour"',
            2,
            ['streams."a.>".acknowledge is "neighbour"', "has no network"],
        ),
        ('[streams."a.>.b"]', 1, ['streams."a.>.b"', "only at the end"]),
        ('faults = "all"', 1, ['faults must be tables, each begun by [[faults]], found "all"']),
        ('[faults]\nkind = "discard"', 1, ["faults must be tables, each begun by [[faults]]"]),
        ("[[faults]]\nrate = 0.1", 1, ["faults.kind is missing"]),
        ("faults = [3]", 1, ["faults must be a table, found 3"]),
        ('[[faults]]\nkind = "lose"', 2, ["faults.kind", '"discard" or "delay"', '"lose"']),
        (
            '[[faults]]\nkind = "delay"\n[[faults]]\nkind = "discard"\nrat = 1',
            5,
            ["faults.rat is unknown", "did you mean faults.rate?"],
        ),
        ('[[faults]]\nkind = "discard"\nrate = 2', 3, ["faults.rate", "from 0 to 1"]),
        (
            '[[faults]]\nkind = "delay"\nlinks = "a b"',
            3,
            ["faults.links", "name or address of a node"],
        ),
        ("[accounts.alice]", 1, ["accounts.alice.secret is missing"]),
        ("[accounts.'a b']", 1, ['accounts."a b"', "client id"]),
        (
            f'[accounts.alice]\nsecret = "{SECRET}"\nclearance = "top"',
            3,
            ["accounts.alice.clearance", '"low" or "med" or "high"'],
        ),
        (
            f'[accounts.alice]\nsecret = "{SECRET}"\npublish = ["a..b"]',
            3,
            ["accounts.alice.publish", "element 1"],
        ),
        (
            f'[accounts.alice]\nsecret = "{SECRET}"\nclient_ids = []',
            3,
            ["accounts.alice.client_ids", "a list of 1"],
        ),
    ],
)
def test_a_wrong_value_is_refused_with_its_key_what_is_allowed_and_the_line(
    text: str, line: int, parts: list[str]
) -> None:
    error = refusal(text)
    for part in parts:
        assert part in error.text
    assert error.line == line


def test_a_secret_is_never_repeated_in_an_error() -> None:
    error = refusal('[accounts.alice]\nsecret = "hunter2"\n')
    assert "accounts.alice.secret must be the hash of a secret" in error.text
    assert "hunter2" not in error.text
    assert error.line == 2


@pytest.mark.parametrize(
    ("text", "line"),
    [("[node]\nname = \n", 2), ("[node\n", 1), ('a = """\n\n', 3), ("a=1\na=2", 2)],
)
def test_an_error_in_toml_is_refused_with_its_line(text: str, line: int) -> None:
    error = refusal(text)
    assert error.text.startswith("node.toml is not TOML: ")
    assert error.line == line


@pytest.mark.parametrize("text", ["x = " + "[" * 20_000, "x = " + "9" * 5_000])
def test_a_text_that_breaks_the_parser_is_refused_like_any_other(text: str) -> None:
    assert refusal(text).text.startswith("node.toml ")


def test_a_long_value_is_shown_in_part() -> None:
    assert len(refusal(f'[node]\nname = "{"n" * 5000}"').text) < 300


def test_a_file_is_loaded_and_named_in_its_errors(tmp_path: Path) -> None:
    path = tmp_path / "my node.toml"
    path.write_text("[node]\nname = 'zbw'\n")
    assert load(path).node.name == "zbw"
    path.write_text("[node]\nnam = 'zbw'\n")
    with pytest.raises(ConfigurationError, match=r"my node\.toml: node\.nam is unknown"):
        load(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="absent.toml can not be read: No such file"):
        load(tmp_path / "absent.toml")


def test_a_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_bytes("# Größe\n".encode("latin-1"))
    with pytest.raises(ConfigurationError, match="not a text in UTF-8"):
        load(path)


def test_a_key_is_named_as_toml_writes_it() -> None:
    assert key_name(("streams", "asdi.>", "acknowledge")) == 'streams."asdi.>".acknowledge'
    assert key_name(("listen", "endpoints", 2)) == "listen.endpoints"


@given(st.text(max_size=200))
def test_any_text_gives_settings_or_a_configuration_error(text: str) -> None:
    try:
        load_text(text, "node.toml")
    except ConfigurationError as refused:
        assert "node.toml" in refused.text


@pytest.mark.parametrize("links", ["127.0.0.1:9*", "[fd00::7]:8770", "b*"])
def test_faults_act_on_links_to_names_and_to_addresses(links: str) -> None:
    found = load_text(f'[[faults]]\nkind = "delay"\nlinks = "{links}"', "node.toml")
    assert [fault.links for fault in found.faults] == [links]
