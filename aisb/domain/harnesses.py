"""
The agents that a sandbox's image can hold: a row each, and no code. How to add one: docs/harnesses.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

PI = "pi"
PI_PACKAGE = "@earendil-works/pi-coding-agent"
PI_VERSION = "1.6.0"


class Harness(NamedTuple):
    """
    An agent, whose command has its name.

    `package` is npm's; `{platform}` in it is the platform in Node's words. npm links its program, unless `binary` says
    where in the package that lies. `token` is the variable that it takes its key from, `preset` the hosts that it wants
    with it, and `header` the one in which they take the key; `endpoint` is the variable that names another host for it.
    `bridge` says whether the host's configuration of it goes
    along. `variables` are set for the command: they keep its start free of requests that no allowlist has.
    """

    name: str
    package: str
    version: str
    binary: str = ""
    token: str = ""
    preset: str = ""
    header: str = ""
    endpoint: str = ""
    bridge: bool = False
    variables: Mapping[str, str] = {}

    def package_for(self, platform: str) -> str:
        """The package for this platform, in Node's words."""
        return self.package.format(platform=platform)


HARNESSES = {
    row.name: row
    for row in (
        Harness(
            "claude",
            "@anthropic-ai/claude-code-{platform}",
            "2.1.332",
            binary="claude",
            token="ANTHROPIC_API_KEY",  # noqa: S106  # the name of a variable
            preset="anthropic",
            header="X-Api-Key",
            endpoint="ANTHROPIC_BASE_URL",
            variables={"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"},
        ),
        # pi looks for news of itself at its start otherwise.
        Harness(PI, PI_PACKAGE, PI_VERSION, bridge=True, variables={"PI_OFFLINE": "1"}),
    )
}


def parse_harness(text: str, origin: str = "--harness") -> str:
    """The name of a row. Raises UsageError with where the text was written."""
    if text in HARNESSES:
        return text
    from difflib import get_close_matches

    near = get_close_matches(text, HARNESSES, n=1)
    hint = f"write: {near[0]}" if near else f"one of: {' '.join(HARNESSES)}"
    raise UsageError(f"{origin} {text!r} is no agent that an image can hold", hint=hint)
