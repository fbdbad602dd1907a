"""The other processes of a benchmark: publishers and subscribers, each a program of its own.

An actor is started by `benchmarks.harness.actor.Actor`. It reads what to do as one line of JSON on
stdin, says `ready` on stdout, begins when it is told `go`, and reports when it is done.
"""
