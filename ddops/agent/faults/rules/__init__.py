"""The rules, by theme: each module is a table that reads from top to bottom."""
