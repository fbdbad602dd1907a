from __future__ import annotations

from benchmarks.meshes.udp_node import count_unread

TABLE = """\
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode \
ref pointer drops
  120: 0100007F:1F90 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 11 2 0 7
  121: 00000000:1F91 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 12 2 0 5
"""


def test_the_datagrams_that_linux_dropped_at_a_port_are_counted() -> None:
    assert count_unread(TABLE, 8080) == 7
    assert count_unread(TABLE, 8081) == 5
    assert count_unread(TABLE, 80) == 0
