"""
A laboratory for end-to-end tests: two hosts with rootless podman and an internet of their own.

Everything lives in private namespaces and in one cache directory. Needs root and Python's standard library.
"""
