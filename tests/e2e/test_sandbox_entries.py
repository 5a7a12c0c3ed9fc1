"""Allow entries on the real command line: one documented answer for each, and no way for one to add a line anywhere."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.e2e.sandbox import outside, report_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.e2e.lab import Lab

# A61: what means nearly everything, or the machine itself.
TOO_BROAD = (
    "*", ".", "*.*", "com", "co.uk", "*.com", "below:com", "0.0.0.0/0", "::/0", "0.0.0.0/1", "128.0.0.0/1", "8000::/1",
    "127.0.0.1", "[::1]:80", "169.254.0.0/16", "fe80::/10", "224.0.0.1", "localhost", "localhost:3000", "aisb.internal",
)  # fmt: skip
# A62: nothing at all.
EMPTY = ("", " ", ",", "x.test,", ",x.test")
# A63: what would be more than a name to a shell, squid, nft, a template or an option parser.
CODE = (
    "x.test\nhttp_access allow all", "x.test\rhttp_access allow all", "x.test\0", "x.test #", "x.test other.test", "x.test;",
    '"x.test', "`id`", "$(id)", "{{7*7}}", "{% raw %}", "10.0.0.1 accept", "/etc/passwd", '"/etc/passwd"', "-n", "--", "-x.test",
    "x.test:443\nacl", "x.test:80;", "x.test:$(id)", "x.test:{{7}}", "x.test:80 accept", "x.test}", "GET x.test/\nacl",
    "GET\n x.test/", "\N{RIGHT-TO-LEFT OVERRIDE}x.test", "\N{ZERO WIDTH NO-BREAK SPACE}x.test",
)  # fmt: skip
# C05: forms that are something else than a name and a port.
NOT_A_NAME = (
    "https://x.test/", "http://u:p@x.test:8443/a?b", "x.test/path", ".x.test", "user@x.test", "x.test..", "x..test",
    f"{'a' * 64}.test", ".".join(["a" * 62] * 4) + ".test", "x-.test", "x.test:", "x.test:0", "x.test:0443", "x.test:65536",
    "x.test:-1", "x.test:+1", "x.test:443:443", "x.test:\N{ARABIC-INDIC DIGIT FOUR}", "==x.test", "exact:exact:x.test",
)  # fmt: skip
# C07: addresses that are none, or whose form says something else than they mean.
NOT_AN_ADDRESS = (
    "10.0.0.0/33", "10.0.0.256", "010.0.0.1", "1.2.3", "2130706433", "0x7f.1", "::ffff:10.0.0.1/120", "fe80::1%eth0", "[::1", "[x]",
)  # fmt: skip
# Forms of the grammar that name nothing.
NOTHING = (
    "@npn",
    "@",
    "@NPM",
    "host:",
    "host:0",
    "host:x",
    "host:65536",
    "GET x.test",
    "BREW x.test/",
    "GET x.test/a**b",
)
ACCEPTED = {
    "x.test": "x.test",
    "X.TEST.": "x.test",
    "x.test:8443": "x.test:8443",
    "*.x.test": "below:x.test",
    "below:x.test:22": "below:x.test:22",
    "=x.test": "exact:x.test",
    "exact:com": "exact:com",
    "_acme.x.test": "_acme.x.test",
    "münchen.test": "xn--mnchen-3ya.test",
    "XN--MNCHEN-3YA.test": "xn--mnchen-3ya.test",
    "faß.test": "xn--fa-hia.test",
}
PORT = {"x.test:8443": "8443", "below:x.test:22": "22"}
# Of the two lines of a refusal.
FIRST_WORDS = "aisb: (--allow ['\"]|  [a-z])"
OWN_LINES = ("allow.", "# allowlist: ", "acl listed_port port ")
PRINTS = ("--print-squid", "--print-nft", "--print-entrypoint", "--print-containerfile")


def answers(lab: Lab, commands: Iterable[list[str]]) -> list[list[Any]]:
    """Exit code, stdout and stderr of each command line."""
    text = json.dumps(list(commands))
    found: list[list[Any]] = report_of(lab.run("python3 -I -", stdin=outside("many").encode(), env={"CASES": text}))
    return found


def test_an_entry_outside_the_grammar_is_refused_before_anything_is_rendered(lab: Lab) -> None:
    """A61, A63, C05, C07: 2, nothing on stdout, and two lines: the entry, and what to write instead."""
    entries = (*TOO_BROAD, *EMPTY, *CODE, *NOT_A_NAME, *NOT_AN_ADDRESS, *NOTHING)

    found = answers(lab, ([f"--allow={entry}", "--print-policy", *PRINTS] for entry in entries))

    lines = [
        (code, out, [re.match(FIRST_WORDS, line) is not None for line in err.splitlines()]) for code, out, err in found
    ]
    assert [(entry, line) for entry, line in zip(entries, lines, strict=True) if line != (2, "", [True, True])] == []


def test_an_entry_of_the_grammar_is_kept_in_its_one_form(lab: Lab) -> None:
    """A63, C05: it adds no line to what enforces."""
    found = answers(lab, ([f"--allow={entry}", "--print-policy", *PRINTS] for entry in ACCEPTED))

    policies = [[line for line in out.splitlines() if line.startswith("allow.")] for _, out, _ in found]
    rest = {tuple(line for line in out.splitlines() if not line.startswith(OWN_LINES)) for _, out, _ in found}
    assert dict(zip(ACCEPTED, policies, strict=True)) == {
        entry: [f"allow.0={kept}", "allow.0.origin=--allow", f"allow.0.ports={PORT.get(entry, '80,443')}"]
        for entry, kept in ACCEPTED.items()
    }
    assert len(rest) == 1


def test_a_list_that_is_empty_is_never_no_filter(lab: Lab) -> None:
    """A62: no entry, empty entries, only entries that are refused. One with no entry can be looked at, as what it is."""
    empty: tuple[list[str], ...] = ([], ["--net=allow"])
    lists = (
        *empty,
        ["--allow="],
        ["--allow=,"],
        ["--allow=*", "--allow=x.test"],
        ["--allow=x.test", "--allow=!"],
    )

    rests = [[f"--print-{what}"] for what in ("squid", "policy")] + [["--dry-run"], ["--", "touch", "ran"]]
    found = answers(lab, ([*flags, *rest] for rest in rests for flags in lists))

    shown, refused = found[len(lists) :][: len(empty)], found[: len(lists)] + found[len(lists) + len(empty) :]
    assert [(code, "allow." in out, "nothing is allowed yet" in err) for code, out, err in shown] == 2 * [
        (0, False, True)
    ]
    assert [(code, out) for code, out, _ in refused] == len(refused) * [(2, "")]
    assert lab.run("ls").text == ""
