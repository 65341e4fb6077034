"""Measuring a service under load, from the operator's side, at its public port."""
