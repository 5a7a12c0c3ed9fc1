"""The policy file: strict YAML."""

from __future__ import annotations

import re

import pytest

from aisb.domain.gather import SourcedHost, SourcedRule
from aisb.domain.http_rules import Rule
from aisb.domain.policy_file import PolicyFile, parse_policy_file
from aisb.errors import UsageError

NAME = "policy.yaml"
WHOLE = b"""\
version: 1
allow: [llm.example.com, "@npm", "10.20.0.5:5432"]
networkPolicies:
  - host: api.github.com
    policies:
      - {action: DENY,  path: "/.*",       method: "*"}
      - {action: ALLOW, path: "/repos/.*", method: GET}
"""
RULES = (
    SourcedRule(Rule("DENY", "*", "/.*"), f"{NAME}:6"),
    SourcedRule(Rule("ALLOW", "GET", "/repos/.*"), f"{NAME}:7"),
)


def refusal(text: str | bytes) -> tuple[str, str]:
    """Message and hint."""
    with pytest.raises(UsageError) as caught:
        parse_policy_file(text.encode() if isinstance(text, str) else text, NAME)
    assert caught.value.exit_code == 2
    return caught.value.message, caught.value.hint


def rule(text: str) -> str:
    return "networkPolicies:\n- host: a.test\n  policies:\n  - " + text


def test_the_file_of_the_reference() -> None:
    assert parse_policy_file(WHOLE, NAME) == PolicyFile(
        allow=(
            ("llm.example.com", f"{NAME}:2"),
            ("@npm", f"{NAME}:2"),
            ("10.20.0.5:5432", f"{NAME}:2"),
        ),
        hosts=(SourcedHost("api.github.com", RULES, f"{NAME}:4"),),
    )


@pytest.mark.parametrize(
    "data",
    [WHOLE, WHOLE.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + WHOLE, b"---\n" + WHOLE[:-1], b"# x\n" + WHOLE],
    ids=["plain", "CRLF", "mark", "document", "comment"],
)
def test_the_shape_of_the_text_means_nothing(data: bytes) -> None:
    policy = parse_policy_file(data, NAME)

    assert [text for text, _ in policy.allow] == ["llm.example.com", "@npm", "10.20.0.5:5432"]
    assert [item.rule for host in policy.hosts for item in host.rules] == [item.rule for item in RULES]


def test_version_and_allow_may_be_left_out() -> None:
    """A file that holds only networkPolicies is complete."""
    only = WHOLE[WHOLE.index(b"networkPolicies") :]

    assert parse_policy_file(only, NAME).allow == ()
    assert parse_policy_file(only, NAME).hosts[0].host == "api.github.com"
    assert parse_policy_file(b"allow:\n- a.test\n", NAME) == PolicyFile((("a.test", f"{NAME}:2"),), ())


def test_scalars_are_text_whatever_yaml_makes_of_them() -> None:
    """Neither a number to the base of sixty, nor a truth, nor a date."""
    policy = parse_policy_file(b"version: '1'\nallow: [10:20, no, 2001-01-01, 1.10, null, 0x7f, 'a: b']\n", NAME)

    assert [text for text, _ in policy.allow] == ["10:20", "no", "2001-01-01", "1.10", "null", "0x7f", "a: b"]


def test_a_host_without_rules_is_one_that_denies_everything() -> None:
    assert parse_policy_file(b"networkPolicies: [{host: a.test, policies: []}]", NAME).hosts == (
        SourcedHost("a.test", (), f"{NAME}:1"),
    )


@pytest.mark.parametrize(
    ("text", "canonical"), [("API.GitHub.com.", "api.github.com"), ("münchen.test", "xn--mnchen-3ya.test")]
)
def test_a_host_is_folded_like_an_entry(text: str, canonical: str) -> None:
    file = f"networkPolicies: [{{host: {text}, policies: []}}]"

    assert parse_policy_file(file.encode(), NAME).hosts[0].host == canonical


def test_a_host_may_stand_twice_and_its_rules_add_up_from_top_to_bottom() -> None:
    text = b"networkPolicies: [{host: a.test, policies: []}, {host: a.test, policies: []}]"

    assert [host.host for host in parse_policy_file(text, NAME).hosts] == ["a.test", "a.test"]


@pytest.mark.parametrize(
    ("text", "line", "item", "nearest"),
    [
        ("version: 1\nalow: [a.test]", 2, "'alow'", "allow"),
        ("networkpolicies: []", 1, "'networkpolicies'", "networkPolicies"),
        ("network_policies: []", 1, "'network_policies'", "networkPolicies"),
        ("\npolicies: []", 2, "'policies'", "policies in an item of networkPolicies"),
        ("host: a.test", 1, "'host'", "host in an item of networkPolicies"),
        ("networkPolicies:\n- hots: a.test\n  policies: []", 2, "'hots'", "host"),
        ("networkPolicies:\n- host: a.test\n  allow: []", 3, "'allow'", "allow in the top of the file"),
        (rule('{action: ALLOW, path: "/", metod: GET}'), 4, "'metod'", "method"),
        (rule('{action: ALLOW, path: "/", method: get}'), 4, "'get'", "method: GET"),
        (rule('{action: Deny, path: "/", method: GET}'), 4, "'Deny'", "action: DENY"),
        ("1: x", 1, "'1'", "version, allow, networkPolicies"),
        ("true: x", 1, "'true'", "version, allow, networkPolicies"),
        ("x: &a [b]\n<<: *a", 1, "anchor", "the text itself"),
        ("<<: {allow: [a.test]}", 1, "'<<'", "version, allow, networkPolicies"),
    ],
)
def test_an_unknown_key_is_an_error_with_its_line_and_the_nearest_right_form(
    text: str, line: int, item: str, nearest: str
) -> None:
    """(C01)"""
    message, hint = refusal(text)

    assert message.startswith(f"{NAME}:{line}: ")
    assert item in message
    assert hint == f"write: {nearest}"


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("allow: [a.test]\nallow: [b.test]", 2, "'allow' stands here twice"),
        ("allow: [a.test]\n'allow': [b.test]", 2, "'allow' stands here twice"),
        (rule("{action: ALLOW, action: DENY, path: /, method: GET}"), 4, "'action' stands here twice"),
        ("allow: &x [a.test]", 1, "there is an anchor"),
        ("allow:\n- *x", 2, "*x is an alias"),
        ("allow: !!python/object:os.system [a.test]", 1, "there is a tag"),
        ("allow: [!!str a.test]", 1, "there is a tag"),
        ("allow: [! a.test]", 1, "there is a tag"),
        (r'allow: ["\x65vil.test"]', 1, r"\x stands for something else"),
        ('allow:\n- a.test\n- "\\u0065vil.test"', 3, r"\u stands for something else"),
        ('allow: ["good.test\\\n  .evil.test"]', 1, "a backslash at the end of a line stands for something else"),
        (r'{"\x61llow": [a.test]}', 1, r"\x stands for something else"),
        ("%YAML 1.1\n---\nallow: [a.test]", 1, "there is a directive"),
        ("%TAG ! tag:x,2000:\n---\nallow: [a.test]", 1, "there is a directive"),
        ("allow: [a.test]\n---\nallow: [b.test]", 2, "a second document begins here"),
        ("allow: [a.test]\n...\n---\n", 3, "a second document begins here"),
        ("allow: " + "[" * 5000, 1, "this is nested too deeply"),
        ("? [a]\n: b", 1, "this is text, not a list and not keys"),
    ],
)
def test_what_could_stand_for_something_else_is_refused(text: str, line: int, why: str) -> None:
    """(C02)"""
    assert refusal(text)[0] == f"{NAME}:{line}: {why}"


def test_in_double_quotes_a_backslash_and_a_quote_are_written_with_one() -> None:
    text = rule(r"""{action: ALLOW, path: "\/a\\.b\"", method: GET}""")

    assert parse_policy_file(text.encode(), NAME).hosts[0].rules[0].rule.path == r'''/a\.b"'''


def test_a_bomb_of_aliases_does_not_go_off() -> None:
    """(C02)"""
    levels = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    levels += [
        f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    ]

    assert refusal("\n".join(levels))[0] == f"{NAME}:1: there is an anchor"


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("allow: null", 1, "'allow' is a list"),
        ("allow:", 1, "'allow' is a list"),
        ("allow: a.test", 1, "'allow' is a list"),
        ("allow: {a.test: b}", 1, "'allow' is a list"),
        ("allow: [[a.test]]", 1, "this is text, not a list and not keys"),
        ("allow:\n- a.test\n-\n", 3, "there is nothing here"),
        ("allow: ['']", 1, "there is nothing here"),
        ("networkPolicies: {host: a.test}", 1, "'networkPolicies' is a list"),
        ("networkPolicies: [a.test]", 1, "an item of networkPolicies has keys: host, policies"),
        ("networkPolicies:\n- host: a.test", 2, "an item of networkPolicies needs 'policies'"),
        ("networkPolicies:\n- {}", 2, "an item of networkPolicies needs 'host' and 'policies'"),
        ("networkPolicies:\n- host: a.test\n  policies:", 3, "'policies' is a list"),
        ("networkPolicies: [{host: [a.test], policies: []}]", 1, "this is text, not a list and not keys"),
        ("networkPolicies: [{host: '*.test', policies: []}]", 1, "host '*.test' is not one exact name"),
        ("networkPolicies: [{host: '10.0.0.1', policies: []}]", 1, "host '10.0.0.1' is not one exact name"),
        ("networkPolicies: [{host: 'a.test:8080', policies: []}]", 1, "host 'a.test:8080' is more than a name"),
        ("networkPolicies: [{host: 'localhost', policies: []}]", 1, "host 'localhost' is not one exact name"),
        (rule("ALLOW GET /"), 4, "an item of policies has keys: action, path, method"),
        (rule("{action: ALLOW, path: /}"), 4, "an item of policies needs 'method'"),
        (rule("{action: allow, path: /, method: GET}"), 4, "the action is ALLOW or DENY, not 'allow'"),
        (rule("{action: ALLOW, path: '(', method: GET}"), 4, "the path '(' is not a regular expression: missing ), unterminated subpattern at position 0"),
        (rule("{action: ALLOW, path: /, method: get}"), 4, "the method is * or one of DELETE GET HEAD OPTIONS PATCH POST PUT, not 'get'"),
        ("[allow]", 1, "the top of the file has keys: version, allow, networkPolicies"),
        ("a.test", 1, "the top of the file has keys: version, allow, networkPolicies"),
        ("", 1, "the file says nothing"),
        ("# nothing\n", 1, "the file says nothing"),
        ("version: 2", 1, "version '2' is not known"),
        ("version: 1.0", 1, "version '1.0' is not known"),
        ("allow: [a.test", 1, "this is not YAML: expected ',' or ']', but got '<stream end>'"),
        ("allow:\n\t- a.test", 2, "this is not YAML: found character '\\t' that cannot start any token"),
        ("allow:\n- \ufffe", 2, "this is not YAML: a character here cannot stand in YAML"),
        ("allow:\n- a\0b", 2, "there is a character here that cannot be seen (U+0000)"),
        (b"allow:\n- \xe9", 2, "a byte here is not UTF-8"),
    ],
)  # fmt: skip
def test_what_has_the_wrong_shape_is_refused_at_its_line(text: str | bytes, line: int, why: str) -> None:
    """`allow: null` is no list, and never "no filter" (A62)."""
    assert refusal(text)[0] == f"{NAME}:{line}: {why}"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("allow: [@npm]", 'put it in quotes: "@npm"'),
        ("allow:\n- @npm\n- a.test", 'put it in quotes: "@npm"'),
        ("allow: [a.test, *.a.test, b.test]", 'put it in quotes: "*.a.test"'),
        ("allow: [*npm]", 'write: "*npm", in quotes'),
        (rule("{action: ALLOW, path: /, method: *}"), 'put it in quotes: "*"'),
        (rule("\n          action: ALLOW\n          path: /\n          method: *\n"), 'put it in quotes: "*"'),
    ],
)
def test_a_text_that_means_something_to_yaml_is_shown_in_quotes(text: str, hint: str) -> None:
    assert refusal(text)[1] == hint


def test_a_file_that_is_too_large_is_not_read() -> None:
    assert refusal(b"#" * 1_000_001)[0] == f"{NAME}: the file is larger than 1000000 bytes"


@pytest.mark.parametrize("action", ["ALLOW", "DENY"])
@pytest.mark.parametrize("path", ["secret", "^secret", "secret/.*", "api/v[0-9]", "s+/x"])
def test_a_path_that_can_match_nothing_is_refused(action: str, path: str) -> None:
    with pytest.raises(UsageError, match=r"^f:4: the path '.*' matches nothing: every path begins with /") as error:
        parse_policy_file(rule(f"{{action: {action}, path: '{path}', method: '*'}}").encode(), "f")

    assert error.value.hint == f"write: /{path.removeprefix('^')}"


@pytest.mark.parametrize(
    ("path", "target"),
    [
        (".*", "/x"),
        ("(?i)/x", "/X"),
        ("[/]x", "/x"),
        ("(/a|/b)", "/b"),
        ("s?/x", "/x"),
        ("s*/x", "/x"),
        ("s{0,2}/x", "/x"),
        ("s{,2}/x", "/x"),
        ("secret|/x", "/x"),
        ("^/x", "/x"),
        (r"\/x", "/x"),
        (r"\A/x", "/x"),
        (r"\W+x", "/x"),
        ("(?:s)?/x", "/x"),
        ("^^/x", "/x"),
    ],
)
def test_a_path_that_can_match_is_taken(path: str, target: str) -> None:
    text = rule(f"{{action: DENY, path: '{path}', method: '*'}}")
    hosts = parse_policy_file(text.encode(), "f").hosts

    assert re.fullmatch(hosts[0].rules[0].rule.path, target)
