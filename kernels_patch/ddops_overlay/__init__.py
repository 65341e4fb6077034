"""The overlay: what changes SGLang on a ddops host without changing its installation."""

__version__ = "0.1.0"
