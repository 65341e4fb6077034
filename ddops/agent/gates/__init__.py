"""The gates: what a release must pass. Each is a function that returns evidence or raises GateFailed."""
