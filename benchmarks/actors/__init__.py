"""Child processes of a benchmark: publishers and subscribers.

An actor reads its task as one line of JSON from stdin, reports `ready` on stdout, starts on a
second line, and reports `done`.
"""
