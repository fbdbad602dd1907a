"""Benchmarks: `python -m benchmarks`, or `./dev bench`; see `docs/benchmarks.md`."""
