"""Intermittent global order: one core for each variant, behind one interface (RCM R34-R36)."""

from __future__ import annotations

from broker.transport.order.contract import IOrderCore, IOrderVariant, IPacketCodec
from broker.transport.order.effects import Deliver, Move, OrderEffect, Packet, Place, Send, Suspect
from broker.transport.order.instant import Instant
from broker.transport.order.packet import Message, MessageId, Reserved, Stamp
from broker.transport.order.settings import OrderSettings
from broker.transport.order.variants import VARIANTS

__all__ = [
    "VARIANTS",
    "Deliver",
    "IOrderCore",
    "IOrderVariant",
    "IPacketCodec",
    "Instant",
    "Message",
    "MessageId",
    "Move",
    "OrderEffect",
    "OrderSettings",
    "Packet",
    "Place",
    "Reserved",
    "Send",
    "Stamp",
    "Suspect",
]
