"""Client sessions: handshake, lease, and messages in both directions."""
