"""ddops manages SGLang inference services that systemd runs on GPU hosts."""

from .agent import VERSION

__version__ = VERSION
