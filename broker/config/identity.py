"""Settings of accounts, and of logins."""

from __future__ import annotations

import attrs

from broker.config import value_kind
from broker.config.setting import derived_setting, required_setting, setting
from broker.config.stored_secret import StoredSecret
from broker.event.envelope import SecurityLevel
from broker.event.stream import StreamPattern


@attrs.frozen
class AccountSettings:
    """One account: its secret, its client ids and its rights."""

    name: str
    secret: StoredSecret = required_setting(
        value_kind.SECRET,
        "Hash of the account's secret.",
        shown='"scrypt$16384$8$1$SALT$DIGEST"',
    )
    client_ids: tuple[str, ...] = derived_setting(
        value_kind.list_of(value_kind.CLIENT_IDS, least=1),
        lambda account: (account.name,),
        "Client ids that the account may use; by default its own name.",
        shown='["NAME"]',
    )
    publish: tuple[StreamPattern, ...] = setting(
        value_kind.list_of(value_kind.STREAMS), (), "Streams that the account may publish to."
    )
    subscribe: tuple[StreamPattern, ...] = setting(
        value_kind.list_of(value_kind.STREAMS), (), "Streams that the account may subscribe to."
    )
    deny_publish: tuple[StreamPattern, ...] = setting(
        value_kind.list_of(value_kind.STREAMS),
        (),
        "Streams that the account may not publish to, whatever `publish` allows.",
    )
    deny_subscribe: tuple[StreamPattern, ...] = setting(
        value_kind.list_of(value_kind.STREAMS),
        (),
        "Streams that the account may not read, whatever `subscribe` allows. A subscription whose "
        "pattern overlaps one of these is refused.",
    )
    types: tuple[str, ...] = setting(
        value_kind.list_of(value_kind.TYPE_PREFIX),
        (),
        'Event types whose DTDs the account may register: names or prefixes; "" stands for all.',
    )
    administer: bool = setting(
        value_kind.BOOLEAN, False, "Whether the account may administer the node."
    )
    clearance: SecurityLevel = setting(
        value_kind.CLEARANCE,
        SecurityLevel.MED,
        "Highest security level of events that the account may publish or receive.",
    )
