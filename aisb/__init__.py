"""Run a coding agent in a rootless sandbox whose network is an explicit allowlist."""

__version__ = "0.1.0"
