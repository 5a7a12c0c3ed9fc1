"""
What can go wrong, one exit code a class.

    AisbError
    +-- Unwritable      1   an answer of aisb's own could not be written to stdout
    +-- UsageError      2   a command line, an entry or a file that cannot be meant
    +-- Unavailable    69   podman, the gate, a registry or a build is not to be had
    |   +-- CommandError    a program that aisb called ended in a way it cannot use
    +-- InternalError  70   a fault of aisb's own
    +-- Unprotected    77   the sandbox could not be closed, so nothing was run
    +-- Untrusted      78   a policy that nobody has looked at

An error is a sentence and, where there is one, the next step. Only `aisb.cli.main`
prints them and exits.
"""

from __future__ import annotations


class AisbError(Exception):
    """A failure that the user can act on: shown as `aisb: message`, then the hint."""

    exit_code = 70

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Unwritable(AisbError):
    """What was asked for is known, but nobody can be told."""

    exit_code = 1


class UsageError(AisbError):
    """The input cannot be meant: nothing was started."""

    exit_code = 2


class Unavailable(AisbError):
    """Something that a run needs is not there, or did not answer."""

    exit_code = 69


class CommandError(Unavailable):
    """A program that aisb called ended in a way that it cannot use."""


class InternalError(AisbError):
    """A fault of aisb's own."""

    exit_code = 70


class Unprotected(AisbError):
    """A protection could not be put in place, so the command was not run."""

    exit_code = 77


class Untrusted(AisbError):
    """A file that shapes the sandbox is new or has changed."""

    exit_code = 78
