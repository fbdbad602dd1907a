"""Child processes of a benchmark: publishers and subscribers, each a program of its own.

An actor reads its task as one line of JSON from stdin, reports `ready` on stdout, starts on a
second line, and reports `done`.
"""
