"""ddops manages SGLang inference services that systemd runs on GPU hosts."""

__version__ = "0.1.0"
