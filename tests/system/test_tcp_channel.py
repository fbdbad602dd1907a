"""The socket channel over real TCP and TLS, in Twisted and in asyncio."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from unittest import IsolatedAsyncioTestCase

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import clientFromString, serverFromString
from twisted.internet.interfaces import IReactorTCP, IReactorTime
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from broker.channel.driver import IStackReceiver, StackDriver
from broker.channel.p2p import P2PLayer
from broker.channel.socket import ISocketChannel
from broker.channel.socket.asyncio_tcp import AsyncioClock, AsyncioSocketChannel
from broker.channel.socket.tcp import TcpChannelFactory
from broker.channel.view import LinkState, View
from broker.errors import Closed, FrameTooLarge, ProtocolError
from broker.testing.socket_contract import NotingReceiver, SocketChannelContract
