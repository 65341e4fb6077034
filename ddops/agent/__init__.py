"""The host's side of ddops: standard library only, Python 3.9 or newer.

Packed into one ``.pyz`` it travels with every call and every release, and makes
every change on the host. It imports nothing from the rest of ddops.
"""

VERSION = "0.1.0"
