"""What is measured with: events, and as many distinct queries as wanted, the same for a seed."""
