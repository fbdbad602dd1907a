"""A cable that delays frames: `python -m tests.system.delay_relay SECONDS NAMESPACE:TAP ...`.

It makes two devices of /dev/net/tun, each in a network namespace, and passes frames between them.
So it stands for `netem`, which not all kernels have. It runs until its input ends.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import struct
import sys
import time
from collections import deque
from contextlib import suppress

_CLONE_NEWNET = 0x40000000
_TUNSETIFF = 0x400454CA
_IFF_TAP, _IFF_NO_PI = 0x2, 0x1000
_FRAME_BYTES = 65_536
#: Frames of one direction on the way: a further one is lost.
_MOST_FRAMES = 10_000


def open_tap(namespace: str, name: str) -> int:
    """Return the descriptor of a new device in a namespace. This process moves there.

    Raises OSError.
    """
    with open(f"/run/netns/{namespace}") as entry:
        if ctypes.CDLL(None, use_errno=True).setns(entry.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"the namespace {namespace} can not be entered")
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI))
    return device


def relay(devices: tuple[int, int], seconds: float) -> None:
    """Pass frames between two devices, each after a delay, until the input ends."""
    waiting: dict[int, deque[tuple[float, bytes]]] = {device: deque() for device in devices}
    other = dict(zip(devices, reversed(devices), strict=True))
    while True:
        due = min((queue[0][0] for queue in waiting.values() if queue), default=None)
        timeout = None if due is None else max(0.0, due - time.monotonic())
        readable, _, _ = select.select([*devices, 0], [], [], timeout)
        if 0 in readable and not os.read(0, 1):
            return
        now = time.monotonic()
        for device in devices:
            if device in readable:
                frame = os.read(device, _FRAME_BYTES)
                if len(waiting[other[device]]) < _MOST_FRAMES:
                    waiting[other[device]].append((now + seconds, frame))
            queue = waiting[device]
            while queue and queue[0][0] <= now:
                with suppress(OSError):  # A device that is not up yet takes nothing.
                    os.write(device, queue.popleft()[1])


def main(seconds: str, *ends: str) -> None:
    one, other = (open_tap(*end.split(":")) for end in ends)
    print("ready", flush=True)
    relay((one, other), float(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
