from __future__ import annotations

import re
from pathlib import Path

import pytest

from broker.config import Settings, load_text
from broker.config.exposure import find_exposures
from broker.config.rules import find_contradictions
from broker.config.stacks import StackInstance
from broker.errors import ConfigurationError
from broker.transport.stacks import Transport
from plugins.mspaces.stack import MspacesStack

SALT, KEY = "A" * 22 + "==", "A" * 43 + "="
ACCOUNT = f'[accounts.alice]\nsecret = "SCRAM-SHA-256$100000:{SALT}${KEY}:{KEY}"\n'


def test_without_accounts_an_open_endpoint_is_refused_at_its_line() -> None:
    text = '[listen]\nendpoints = [\n  "unix:node.socket",\n  "tcp:port=8765",\n]\n'
    with pytest.raises(ConfigurationError, match="without accounts") as refused:
        load_text(text, "node.toml")
    assert refused.value.line == 4
    assert "listen.endpoints" in refused.value.text
    assert '"tcp:port=8765"' in refused.value.text


def test_with_an_account_an_encrypted_open_endpoint_is_accepted() -> None:
    endpoint = "ssl:port=8765:privateKey=k.pem:certKey=c.pem"
    settings = load_text(f'[listen]\nendpoints = ["{endpoint}"]\n{ACCOUNT}', "node.toml")
    assert settings.listen.endpoints == (endpoint,)


def test_secrets_cross_a_network_in_clear_text_only_if_allowed() -> None:
    text = '[listen]\nendpoints = ["tcp:port=8765"]\n'
    with pytest.raises(ConfigurationError, match="listen.allow_cleartext") as refused:
        load_text(text + ACCOUNT, "node.toml")
    assert refused.value.line == 2 and "\n" not in refused.value.text
    settings = load_text(f"{text}allow_cleartext = true\n{ACCOUNT}", "node.toml")
    (warning,) = find_exposures(settings)
    assert "tcp:port=8765" in warning


@pytest.mark.parametrize(
    ("network", "warned"),
    [
        ('listen = ["tcp:port=8770:interface=127.0.0.1"]', ()),
        ('listen = ["tcp:port=8770:interface=192.0.2.1"]\nkey_file = "k"', ("up to med",)),
        ('join = ["192.0.2.1:8770"]\nkey_file = "k"\ncleartext_clearance = "low"', ("up to low",)),
        ('join = ["192.0.2.1:8770"]\ncertificate = "c"\nauthority = "a"', ()),
        ('udp = "192.0.2.1:8770"\ncertificate = "c"\nauthority = "a"\nkey_file = "k"', ("up to",)),
        (
            'listen = ["tcp:port=8770"]\nkey_file = "k"\ncleartext_clearance = "high"',
            ("up to med", "high only within this machine"),
        ),
    ],
)
def test_clear_text_between_nodes_is_warned_of(network: str, warned: tuple[str, ...]) -> None:
    settings = load_text(f'[network]\ncluster = "one"\nadvertise = "a:1"\n{network}\n', "n.toml")
    found = list(find_exposures(settings))
    assert len(found) == len(warned)
    assert all(text in each for text, each in zip(warned, found, strict=True))


@pytest.mark.parametrize(
    ("endpoint", "count"),
    [("tcp:port=9100:interface=127.0.0.1", 0), ("unix:metrics", 0), ("tcp:port=9100", 1)],
)
def test_open_metrics_are_warned_of(endpoint: str, count: int) -> None:
    settings = load_text(f'[metrics]\nendpoint = "{endpoint}"\n', "node.toml")
    found = list(find_exposures(settings))
    assert len(found) == count and all(endpoint in each for each in found)


def test_administrators_that_see_beyond_their_clearance_are_warned_of() -> None:
    account = ACCOUNT + "administer = true\n"
    (warning,) = find_exposures(load_text(account, "node.toml"))
    assert "alice" in warning
    assert not list(find_exposures(load_text(account + 'clearance = "high"\n', "node.toml")))


def test_hashes_of_an_earlier_version_are_warned_of() -> None:
    digest = f'secret = "scrypt$16384$8$1${SALT}${KEY}"\n'
    accounts = "".join(f"[accounts.a{number:02}]\n{digest}" for number in range(12))
    (warning,) = find_exposures(load_text(ACCOUNT + accounts, "node.toml"))
    assert "accounts have hashes" in warning and "a09..." in warning
    (warning,) = find_exposures(load_text("[accounts.bob]\n" + digest, "node.toml"))
    assert ": bob;" in warning and "alice" not in warning


def test_encryption_alone_does_not_open_a_node_without_accounts() -> None:
    with pytest.raises(ConfigurationError, match="without accounts"):
        load_text('[listen]\nendpoints = ["ssl:port=8765:privateKey=k.pem"]', "node.toml")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('[limits]\nmax_event_bytes = "20MiB"\nwindow_bytes = "1GiB"', "limits.max_frame_bytes"),
        ('[limits]\nmax_event_bytes = "8MiB"', "limits.window_bytes"),
        ('[queue]\nbytes = "64KiB"', "queue.bytes"),
        ('[log]\nmax_bytes = "1MiB"\n[limits]\nmax_event_bytes = "2MiB"', "log.max_bytes"),
    ],
)
def test_each_buffer_must_hold_the_largest_event(text: str, key: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{key} is .* must hold the largest event"):
        load_text(text, "node.toml")


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        (
            'kind = "delay"\nrate = 0.5',
            5,
            "faults.rate has no meaning for the kind delay: it uses maximum, minimum, seed",
        ),
        ('kind = "delay"\nminimum = "1s"', 3, "faults.kind is delay: delay: minimum and maximum"),
        (
            'kind = "partition"\nlasts = "1m"\nevery = "30s"',
            3,
            "faults.kind is partition: partition every: 60.0 is after the repetition starts",
        ),
    ],
)
def test_a_fault_that_can_not_be_is_refused_at_its_line(
    text: str, line: int, sentence: str
) -> None:
    with pytest.raises(ConfigurationError, match=sentence) as refused:
        load_text('[[faults]]\nkind = "discard"\n[[faults]]\n' + text, "node.toml")
    assert refused.value.line == line


def test_a_fault_may_spell_out_what_it_does_not_use_as_long_as_it_is_the_default() -> None:
    (fault,) = load_text('[[faults]]\nkind = "delay"\nrate = 0.01', "node.toml").faults
    assert (fault.kind, fault.maximum) == ("delay", 0.1)


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ('udp = "10.0.0.1:7200"', "udp"),
        ('udp = "0.0.0.0:7200"', "udp"),
        ('udp = "[2001:db8::1]:7200"', "udp"),
        ('group = "239.255.7.7:7300"\ngroup_interface = "eth0"', "group"),
    ],
)
def test_datagrams_of_others_need_a_key(settings: str, key: str, tmp_path: Path) -> None:
    text = f'[network]\ncluster = "alps"\nlisten = ["unix:other"]\n{settings}\n'
    with pytest.raises(ConfigurationError, match=rf"network\.{key}.*without network.key_file"):
        load_text(text, "node.toml")
    (tmp_path / "key").write_text("a key of all the nodes")
    load_text(f'{text}key_file = "{tmp_path / "key"}"\n', "node.toml")


@pytest.mark.parametrize(
    "settings",
    [
        'udp = "127.0.0.1:7200"',
        'udp = "[::1]:7200"',
        'group = "239.255.7.7:7300"\ngroup_interface = "lo"',
    ],
)
def test_datagrams_of_this_machine_need_no_key(settings: str) -> None:
    load_text(f'[network]\ncluster = "alps"\nlisten = ["unix:other"]\n{settings}\n', "node.toml")


@pytest.mark.parametrize("group", ["239.255.7.8:7400", "[ff02::7]:7400"])
def test_a_group_in_which_nodes_are_found_needs_an_interface(group: str) -> None:
    text = f'[network]\nlisten = ["unix:other"]\ndiscover = "{group}"\n'
    with pytest.raises(ConfigurationError, match=r"network\.discover .* network.group_interface"):
        load_text(text, "node.toml")
    load_text(f'{text}group_interface = "eth0"\n', "node.toml")


def test_the_name_of_the_default_stack_is_that_of_its_transport() -> None:
    settings = Settings(stacks=(StackInstance("mspaces", use="two_parents"),))
    path, sentence = next(find_contradictions(settings))
    assert path == ("stacks", "mspaces", "use")
    assert sentence.endswith("another transport needs another name")


def test_several_instances_of_the_default_transport_may_run() -> None:
    stacks = "".join(f'[stacks.{name}]\nuse = "mspaces"\n' for name in ("radar", "boats"))
    streams = '[streams."asdi.>"]\nstack = "radar"\npromises = ["acknowledgement"]\n'
    network = '[network]\ncluster = "alps"\nlisten = ["unix:other"]\n'
    settings = load_text(f'{network}{streams}{stacks}clearance = "low"\n', "node.toml")
    assert [(each.name, each.use) for each in settings.stacks] == [
        ("radar", "mspaces"),
        ("boats", "mspaces"),
    ]


@pytest.mark.parametrize(
    ("transport", "allowed"), [(Transport.DATAGRAM, False), (Transport.TCP, True)]
)
def test_a_link_stack_is_checked_on_the_channels_that_it_names(
    transport: Transport, allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = MspacesStack()
    monkeypatch.setattr(MspacesStack, "transports", frozenset({Transport.UDP, transport}))
    monkeypatch.setattr("broker.config.rules.find_plugins_of", lambda _: (None, stack))
    text = "\n[stacks.mspaces]\n"
    if allowed:
        load_text(text, "node.toml")
        return
    with pytest.raises(ConfigurationError, match="'p2p' requires messages of any size") as refused:
        load_text(text, "node.toml")
    assert "stacks.mspaces" in refused.value.text
    assert refused.value.line == 2


@pytest.mark.parametrize(("over", "missing"), [("tcp", ""), ("udp", "tcp"), ("tcp udp", "")])
@pytest.mark.parametrize("name", ["mspaces", "radar"])
def test_links_of_the_network_and_of_its_instances_need_its_channels(
    name: str, over: str, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MspacesStack, "transports", frozenset(map(Transport, over.split())))
    text = f'stacks.{name} = {{ use = "mspaces", links = "mspaces" }}\n'
    udp = '[network]\ncluster = "x"\nlisten = ["unix:other"]\nudp = "127.0.0.1:1"\n'
    if missing:
        with pytest.raises(ConfigurationError, match=f"does not run over {missing}"):
            load_text(text, "node.toml")
    else:
        load_text(text, "node.toml")
    if "udp" not in over:
        with pytest.raises(ConfigurationError, match="does not run over udp"):
            load_text(f'{text}{udp}transport = "udp"', "node.toml")


def test_haproxy_endpoints_are_refused_since_anyone_could_send_a_header() -> None:
    endpoint = "haproxy:tcp:port=8765:interface=127.0.0.1"
    with pytest.raises(ConfigurationError, match="name the proxies in listen.proxies"):
        load_text(f'[listen]\nendpoints = ["{endpoint}"]\n{ACCOUNT}', "node.toml")


TOKENS = (
    '[identity]\ntoken_keys = "keys.json"\ntoken_issuer = "https://a"\ntoken_audience = "here"\n'
)
AUTHORITY = (
    '[listen]\nendpoints = ["ssl:8765:interface=127.0.0.1"]\n'
    '[identity]\nclient_authority = "authority.pem"\n'
)


def test_credentials_need_their_settings() -> None:
    certified = load_text(
        f'{AUTHORITY}[accounts.a]\ncertificates = ["O=Org,CN=a", "DNS:A.example", "URI:x:y"]', ""
    )
    assert certified.accounts[0].certificates == ("O=Org,CN=a", "dns:a.example", "URI:x:y")
    assert load_text(f'{TOKENS}[accounts.a]\ntokens = ["https://a|me"]', "").accounts[0].tokens
    for text, reason in (
        ("[accounts.a]", "accounts.a.secret is missing, or certificates, or tokens"),
        ('[accounts.a]\ncertificates = ["CN=a"]', "needs identity.client_authority"),
        ('[accounts.a]\ntokens = ["https://a|me"]', "needs identity.token_keys"),
        ('[identity]\ntoken_issuer = "https://a"', "identity.token_keys is missing"),
        ('[identity]\nclient_authority = "a.pem"', "needs an endpoint of the kind ssl"),
        (f'{TOKENS}[accounts.a]\ntokens = ["https://b|me"]', "has the issuer 'https://b'"),
        (f'{TOKENS}[accounts.a]\ntokens = ["me"]', "an issuer and a subject"),
        (f'{AUTHORITY}[accounts.a]\ncertificates = ["a"]', "a subject such as"),
        (
            f'{AUTHORITY}[accounts.a]\ncertificates = ["CN=a"]\n'
            '[accounts.b]\ncertificates = ["CN=a"]',
            "which account 'a' has too",
        ),
    ):
        with pytest.raises(ConfigurationError, match=re.escape(reason)):
            load_text(text, "node.toml")


def test_at_most_four_secrets_are_valid_at_a_time() -> None:
    secret = ACCOUNT.split('"')[1]
    for count in (1, 4):
        (account,) = load_text(f"[accounts.a]\nsecret = {[secret] * count}", "").accounts
        assert len(account.secret) == count
    for value in ([secret] * 5, [], [secret, "hunter2"], [secret, 1], 1):
        with pytest.raises(ConfigurationError) as refused:
            load_text(f"[accounts.a]\nsecret = {value}", "node.toml")
        assert "hunter2" not in refused.value.text and secret not in refused.value.text
