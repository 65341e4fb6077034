"""How fast ddops is, measured from outside: `python -m benchmarks.NAME`, from a checkout, as root. No test is timed."""
