"""What benchmarks share: processes, measurements of them, sessions, events, and reports."""
