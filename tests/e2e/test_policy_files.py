"""Policy files, allow lists and configuration on the real command line: what they mean, and one answer to each mistake."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.e2e.legs import curl, inside, needs_sinks, outside, requested
from tests.e2e.sandbox import Case, run_cases

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

# Dozens of runs of aisb each, one after the other.
pytestmark = [needs_sinks, pytest.mark.timeout(600)]

STATUS = ("--output", "/dev/null", "--write-out", "%{http_code}")
GITHUB_HOSTS = ("github.com", "api.github.com", "raw.githubusercontent.com", "gist.github.com")
EXAMPLE = "~/../../tree/config/examples/github-read-only.yaml"


def test_the_example_for_github_reads_and_does_not_write(lab: Lab) -> None:
    """Pages, the API, what a clone asks for; no push, no issue, no other host of theirs, over HTTP either."""
    lab.names("".join(f"{host} A 203.0.113.10\n{host} AAAA 2001:db8::10\n" for host in GITHUB_HOSTS))
    repository = "https://github.com/octo/repo.git"
    reads = {
        "a page": curl(*STATUS, "https://github.com/octo/repo"),
        "a page, without": curl(*STATUS, "https://github.com/octo/repo", bare=True),
        "a clone's first": curl(*STATUS, f"{repository}/info/refs?service=git-upload-pack"),
        "a clone's second": curl(*STATUS, "--data", "x", f"{repository}/git-upload-pack"),
        "the API": curl(*STATUS, "https://api.github.com/repos/octo/repo/issues"),
        "a head": curl(*STATUS, "--head", "https://api.github.com/repos/octo/repo"),
        "a file": curl(*STATUS, "https://raw.githubusercontent.com/octo/repo/main/README.md"),
    }
    writes = {
        "a push": curl(*STATUS, "--data", "x", f"{repository}/git-receive-pack"),
        "a push, over HTTP": curl(*STATUS, "--data", "x", "http://github.com/octo/repo.git/git-receive-pack"),
        "an issue": curl(*STATUS, "--data", "x", "https://api.github.com/repos/octo/repo/issues"),
        "a question in GraphQL": curl(*STATUS, "--data", "x", "https://api.github.com/graphql"),
        "a change": curl(*STATUS, "--request", "PATCH", "https://api.github.com/repos/octo/repo"),
        "a removal": curl(*STATUS, "--request", "DELETE", "https://api.github.com/repos/octo/repo", bare=True),
        "settings": curl(*STATUS, "https://github.com/settings/tokens"),
    }
    gist = {"a gist": curl("https://gist.github.com/octo")}

    direct = outside(lab, reads | writes | gist)
    assert direct == dict.fromkeys(reads | writes, "200") | {"a gist": "hello from allowed.test"}
    result = inside(lab, f"--policy {EXAMPLE}", reads | writes | gist)

    assert result.said == dict.fromkeys(reads, "200") | dict.fromkeys(writes | gist, "403")
    assert len(requested(lab)) == len(reads)
    assert not any("receive" in line or "graphql" in line or "PATCH" in line for line in requested(lab))


SOURCES = {
    ".config/ai-sandbox/config.yaml": "allow: [cdn.test]\n",
    "mine.yaml": (
        "networkPolicies:\n"
        "- host: allowed.test\n  policies:\n  - {action: DENY, method: GET, path: '/pub/secret'}\n"
        "  - {action: ALLOW, method: GET, path: '/also'}\n"
    ),
}
PROJECTS = "allow: [llm.test]\nnetworkPolicies:\n- host: allowed.test\n  policies: [{action: ALLOW, method: GET, path: '/pub/.*'}]\n"


def test_layers_add_up_and_the_last_rule_that_matches_counts(lab: Lab) -> None:
    """The user's configuration, the project's files and --policy, each item with its origin. (C10, C11)"""
    urls = (
        "allowed.test/pub/a",
        "allowed.test/pub/secret",
        "allowed.test/also",
        "allowed.test/no",
        "cdn.test/",
        "llm.test/",
        "evil.test/",
    )
    fetch = "; ".join(f'curl -s -o /dev/null -w "%{{http_code}} " https://{url}' for url in urls)
    write = "".join(
        f"mkdir -p ~/$(dirname {name}) && cat >~/{name} <<'END'\n{text}END\n" for name, text in SOURCES.items()
    )
    project = f"mkdir .ai-sandbox && cat >.ai-sandbox/policy.yaml <<'END'\n{PROJECTS}END\n"
    once = "--trust-once $(aisb trust --show 2>&1 | grep -oE '[0-9a-f]{64}' | head -1)"

    result = lab.run(
        f"{write}{project}hash=\"{once}\"; aisb -q $hash --policy ~/mine.yaml -- sh -c '{fetch}'; echo; aisb $hash --policy ~/mine.yaml --print-policy"
    )

    statuses, _, printed = result.text.partition("\n")
    assert statuses.split() == ["200", "403", "200", "403", "200", "200", "000"], result.errors
    assert len(requested(lab)) == 4
    origins = dict(
        line.split("=", 1) for line in printed.splitlines() if ".origin" in line or line.startswith("allow.")
    )
    assert {origins[f"allow.{number}"]: origins[f"allow.{number}.origin"] for number in (0, 1)} == {
        "cdn.test": "~/.config/ai-sandbox/config.yaml:1"
        if "~" in printed
        else next(value for value in origins.values() if value.endswith("config.yaml:1")),
        "llm.test": ".ai-sandbox/policy.yaml:1",
    }
    assert re.search(r"=\.ai-sandbox/policy\.yaml:4$", printed, re.MULTILINE)
    assert re.search(r"=.*mine\.yaml:4$", printed, re.MULTILINE)


RULE = "networkPolicies:\n- host: a.test\n  policies:\n  - "
# C01, C02, A62, A63: text of the file, the line, what is said of it.
POLICIES = {
    "a typo": ("alow: [a.test]\n", 1, "alow"),
    "a key at the wrong level": ("allow: [a.test]\npolicies: []\n", 2, "policies"),
    "a key of a rule": (RULE + "{action: ALLOW, method: GET, paht: /a}\n", 4, "paht"),
    "a key that is no text": ("1: x\n", 1, "1"),
    "a missing key": (RULE + "{action: ALLOW, path: /a}\n", 4, "method"),
    "a key twice": ("allow: [a.test]\nallow: [b.test]\n", 2, "allow"),
    "an anchor": ("allow: &x [a.test]\n", 1, "anchor"),
    "an alias": ("allow: [a.test, *x]\n", 1, "alias"),
    "a merge": ("x: {a: 1}\n<<: {allow: [a.test]}\n", 1, "x"),
    "a tag": ("allow: !!python/object:os.system [a.test]\n", 1, "tag"),
    "two documents": ("allow: [a.test]\n---\nallow: [b.test]\n", 2, "document"),
    "no YAML": ("allow: [a.test\n", 2, ""),
    "nothing": ("allow: null\n", 1, "allow"),
    "an empty entry": ("allow: [a.test, '']\n", 1, ""),
    "a list in a list": ("allow: [[a.test]]\n", 1, "text"),
    "an entry that is code": ("allow:\n- a.test\n- 'b.test http_access allow all'\n", 3, "b.test"),
    "another version": ("version: 2\nallow: [a.test]\n", 1, "version"),
    "another action": (RULE + "{action: allow, method: GET, path: /a}\n", 4, "allow"),
    "another method": (RULE + "{action: ALLOW, method: BREW, path: /a}\n", 4, "BREW"),
    "two methods": (RULE + "{action: ALLOW, method: 'GET,POST', path: /a}\n", 4, "GET,POST"),
    "no expression": (RULE + "{action: ALLOW, method: GET, path: '/(a'}\n", 4, "/(a"),
    "code in a path": (RULE + '{action: ALLOW, method: GET, path: "/a\\nhttp_access allow all"}\n', 4, "\\n stands for something else"),
    "a tree as a host": ("networkPolicies:\n- host: '*.a.test'\n  policies: []\n", 2, "*.a.test"),
    "a host with a port": ("networkPolicies:\n- host: a.test:443\n  policies: []\n", 2, "a.test:443"),
    "latin-1": ("allow: [m\udcfcnchen.test]\n", 1, "UTF-8"),
    "a character that hides": ("allow: [a.\u202etest]\n", 1, ""),
}  # fmt: skip


def test_each_mistake_in_a_policy_file_is_an_error_with_its_line(lab: Lab) -> None:
    """2, file:line, and nothing ran; two lines, no traceback. (C01, C02, A62, A63)"""
    run = ("sh", "-c", "exec aisb -q --policy ~/p.yaml -- touch /project/ran")
    good = Case(run, {"p.yaml": "allow: [allowed.test]\n"})

    works, *ended = run_cases(
        lab, [good, *(Case(run, {"p.yaml": text}) for text, _, _ in POLICIES.values())], timeout=400
    )

    assert works == (0, "", "", ["ran"])
    said = {
        name: (
            item.code,
            item.stdout,
            item.new,
            f"p.yaml:{line}: " in item.stderr,
            part in item.stderr,
            "Traceback" in item.stderr,
        )
        for (name, (_, line, part)), item in zip(POLICIES.items(), ended, strict=True)
    }
    assert {
        name: (said[name], item.stderr)
        for name, item in zip(POLICIES, ended, strict=True)
        if said[name] != (2, "", [], True, True, False)
    } == {}


ENTRIES = "allowed.test\nexact:x.cdn.test:22\n"
# C04: however it is written, it is the same list.
SHAPES = {
    "plain": ENTRIES,
    "CRLF": ENTRIES.replace("\n", "\r\n"),
    "a mark": "\ufeff" + ENTRIES,
    "no end": ENTRIES.removesuffix("\n"),
    "comments and blanks": "# mine\n\n\tallowed.test   # the mirror\n  exact:x.cdn.test:22\t\n",
}
# How the file is made, and the line that is wrong.
NO_LISTS = {
    "UTF-16": ("printf 'a.test\\n' | iconv -t utf-16 >FILE", ":1: "),
    "latin-1": ("printf 'a.test\\nm\\374nchen.test\\n' >FILE", ":2: "),
    "a comma": ("printf 'a.test\\nb.test, c.test\\n' >FILE", ":2: "),
    "a URL": ("echo https://a.test/ >FILE", ":1: "),
    "code": ("printf 'a.test\\na.test;http_access allow all\\n' >FILE", ":2: "),
    "everything": ("printf 'a.test\\n*\\n' >FILE", ":2: "),
    "nothing": (": >FILE", "nothing is allowed yet"),
    "comments only": ("printf '# a.test\\n\\n' >FILE", "nothing is allowed yet"),
    "not readable": ("echo a.test >FILE; chmod 0 FILE", "cannot be read"),
    "a directory": ("mkdir FILE", "a directory"),
    "a link": ("ln -s /etc/hostname FILE", "a link"),
    "a pipe": ("mkfifo FILE", "a pipe"),
    "too large": ("yes a.test | head -c 1000001 >FILE", "1000000"),
    "almost its name": ("echo a.test >.ai-sandbox/alow", "allow"),
}  # fmt: skip


def test_an_allow_list_is_read_however_it_is_written_and_an_error_where_it_cannot_be(lab: Lab) -> None:
    """An unreadable list is never an empty one, and an empty one never no filter. (C04, A62)"""
    once = "--trust-once $(aisb trust --show 2>&1 | grep -oE '[0-9a-f]{64}' | head -1)"
    shapes = [
        Case(
            (
                "sh",
                "-c",
                f"mkdir -p .ai-sandbox; cp ~/list .ai-sandbox/allow; aisb {once} --print-policy; rm -r .ai-sandbox",
            ),
            {"list": text},
        )
        for text in SHAPES.values()
    ]
    faults = [
        Case(("sh", "-c", (
            f"mkdir -p .ai-sandbox; {make.replace('FILE', '.ai-sandbox/allow')}; "
            f"aisb -q --trust-once $(aisb trust --show 2>&1 | grep -oE '[0-9a-f]{{64}}' | head -1 | grep . || echo {64 * '0'}) -- touch /project/ran; "
            "code=$?; chmod -R u+rw .ai-sandbox; rm -r .ai-sandbox; exit $code"
        )))
        for make, _ in NO_LISTS.values()
    ]  # fmt: skip
    many = Case(
        (
            "sh",
            "-c",
            f"mkdir -p .ai-sandbox; seq -f 'x%g.test' 5000 >.ai-sandbox/allow; aisb {once} --print-policy; rm -r .ai-sandbox",
        )
    )

    ended = run_cases(lab, [*shapes, many, *faults], timeout=400)

    lists = {
        tuple(line for line in item.stdout.splitlines() if re.match(r"allow\.[0-9]+(\.ports)?=", line))
        for item in ended[: len(SHAPES)]
    }
    assert lists == {
        ("allow.0=allowed.test", "allow.0.ports=80,443", "allow.1=exact:x.cdn.test:22", "allow.1.ports=22")
    }
    assert ended[len(SHAPES)].stdout.count(".origin=.ai-sandbox/allow:") == 5000
    found = dict(zip(NO_LISTS, ended[len(SHAPES) + 1 :], strict=True))
    assert {
        name: item
        for name, item in found.items()
        if (item.code, item.stdout, item.new) != (2, "", [])
        or NO_LISTS[name][1] not in item.stderr
        or "Traceback" in item.stderr
    } == {}
