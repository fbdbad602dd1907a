"""Robust Chat: rooms whose messages have one order at all sites (RCM R45-R47).

`message` has the payload; `transcript` and `room` are the model, without I/O; `chat_session`
connects the model with a client; `line_format` has the text of lines.
"""
