"""One site numbers the messages of all; the next one takes over (RCM R36; L3)."""

from broker.transport.order.sequencer.core import SequencerCore
from broker.transport.order.sequencer.wire import SequencerCodec

__all__ = ["SequencerCodec", "SequencerCore"]
