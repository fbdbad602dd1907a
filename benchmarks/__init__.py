"""How fast and how large: `python -m benchmarks`, or `./dev bench`; see `docs/benchmarks.md`."""
