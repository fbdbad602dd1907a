"""What the benchmark `content` measures: an engine of content routing against a bare parse."""
