"""What stepscope costs and what it outlives, measured: `python -m benchmarks`."""
