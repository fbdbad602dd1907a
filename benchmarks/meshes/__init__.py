"""Experiments of `benchmarks.dcp`: the runs, their figures and plots."""
