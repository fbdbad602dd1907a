"""Robust Chat: rooms whose messages have one order at all sites (RCM R45-R47).

`message` has the payload. `transcript` and `room` are the model, `line_format` the text of its
lines, `screen` and `line_editor` the full screen, all without I/O. `chat_session` connects a model
with a client and a view: `plain_view` or `full_screen`; `sender` sends what is typed.
"""
