"""``python -m ddops``."""

from .cli import main

main()
