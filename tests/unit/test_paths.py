"""The form of a path, its readings, and patterns."""

from __future__ import annotations

import re
import time

import pytest

from aisb.domain.paths import LONGEST_PATH, form_fault, glob_fault, glob_regex, readings


@pytest.mark.parametrize(
    "path",
    [
        "/", "/pub/x", "/pub/", "/a.b/..c/d..", "/.well-known/x", "/v1/models/a:generate", "/@scope/name", "/a+b",
        "/a%20b", "/%C3%A9", "/e%CC%81", "/%e4%b8%ad", "/~user", "/x,y=1", "/a%3Ab", "/g%2B%2B", "/a|b{c}", "/compare/a...b",
        "/!azure/@v/list", "/*", "/a'b(c)$&,=", "/" + "x" * (LONGEST_PATH - 1),
    ],
)  # fmt: skip
def test_the_canonical_form(path: str) -> None:
    assert form_fault(path) == ""


@pytest.mark.parametrize(
    "path",
    [
        # Up, here and nowhere, also before parameters (A20).
        "/pub/../secret", "/pub/..", "/./pub/x", "/pub/.", "/pub//..//secret", "//pub", "/pub//", "/pub;x/../secret",
        "/pub/..;x/secret", "/pub/.;/x", "/pub/;x/y", "/pub/;", "/pub/..%3Bx/secret", "/pub/..%3Fx", "/pub/..%23x",
        "/pub/.../x", "/pub/..%20/x", "/pub/%20/x", "/pub/.%20.;/x",
        # What some servers strip, as it is and encoded.
        "/secret;x", "/secret;.png", "/secret%3B.png", "/secret%3bx", "/secret%3F.png", "/secret%3fx", "/secret%23.png", "/x#y", "/x?y",
        # What is encoded so that it may be overlooked.
        "/pub/%2e%2e/secret", "/pub/%2E./secret", "/pub%2fsecret", "/pub%2Fsecret", "/%70ub/x", "/%7Euser", "/%5f", "/%2d",
        "/pub%5csecret", "/pub%5Csecret", "/pub/%252e%252e/secret", "/100%25",
        # What is no character, or no visible one.
        "/x%00", "/x%0a", "/x%0D%0A", "/x%1b[2J", "/x%7f", "/x%C2%85", "/x%E2%80%8B", "/x%E2%80%AE",
        # What is no UTF-8: overlong, cut off, a surrogate, Latin-1.
        "/pub/%C0%AE%C0%AE/secret", "/pub%C0%AFsecret", "/%E0%80%AF", "/%C3", "/%ED%A0%80", "/%E9",
        # What turns into ASCII: full-width dots and slashes, two dots in one, fractions.
        "/%EF%BC%8E%EF%BC%8E/x", "/a%EF%BC%8Fb", "/%E2%80%A5/x", "/%E2%81%84", "/%E2%88%95", "/%C2%BD",
        # A percent sign that begins nothing.
        "/%", "/x%2", "/x%zz", "/x%u002e%u002e/", "/x%+2",
        # Characters that stand for something else, or for nothing.
        "/pub\\..\\secret", "/a b", "/a\tb", "/é", "/x\x00", "/x\n", "\x0b/", "", "*", "pub", "http://a.test/",
        "/" + "x" * LONGEST_PATH,
    ],
)  # fmt: skip
def test_what_is_not_canonical_is_refused_in_words(path: str) -> None:
    assert form_fault(path)


@pytest.mark.parametrize(
    ("path", "others"),
    [
        ("/plain/.x/a..b/", []),
        ("/g%2B%2B", ["/g++", "/g%2b%2b"]),
        ("/g++", ["/g%2B%2B", "/g%2b%2b"]),
        ("/@a/b(c)!", ["/%40a/b%28c%29%21", "/%40a/b(c)!"]),
        ("/%c3%A9", ["/é", "/%C3%A9", "/%c3%a9", "/e\u0301", "/e%CC%81", "/e%cc%81"]),
        ("/secret./y", ["/secret/y"]),
        ("/secret%20", ["/secret ", "/secret"]),
    ],
)
def test_a_path_is_read_in_every_spelling_that_a_server_may_take_it_in(path: str, others: list[str]) -> None:
    assert readings(path) == (path, *others)


@pytest.mark.parametrize(
    "path", ["/" + "+" * 4000, "/" + "%c3%a9" * 680, "/" + "%e4%b8%ad." * 400, "/" + "%20/a" * 800]
)
def test_spellings_take_no_time_that_others_wait_for(path: str) -> None:
    began = time.process_time()

    found = readings(path)

    assert (len(found) < 50, time.process_time() - began < 0.1) == (True, True)


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("/repos/**", "/repos/a/b", True),
        ("/repos/**", "/repos/", True),
        ("/repos/**", "/repos", False),
        ("/repos/**", "/xrepos/a", False),
        ("/**", "/", True),
        ("/**", "/a/b", True),
        ("/repos/*/issues", "/repos/a/issues", True),
        ("/repos/*/issues", "/repos/a/b/issues", False),
        ("/repos/*", "/repos/", False),
        ("/v*/x", "/v12/x", True),
        ("/v*/x", "/v/x", True),
        ("/v*/x", "/v1/2/x", False),
        ("/*.tgz", "/a.tgz", True),
        ("/*.tgz", "/axtgz", False),
        ("/a+b(c)|d", "/a+b(c)|d", True),
        ("/a.b", "/aXb", False),
        ("/x$", "/x$", True),
        ("/{a}[b]^", "/{a}[b]^", True),
    ],
)
def test_a_star_is_one_segment_and_two_are_any_rest(pattern: str, path: str, matches: bool) -> None:
    assert glob_fault(pattern) == ""
    assert bool(re.fullmatch(glob_regex(pattern), path)) is matches


@pytest.mark.parametrize(
    "pattern", ["/a/**/b", "/a**", "/***", "/a/../b", "/a//b", "/a?b", "/%2e", "/a#b", "/a;b", "/a\\b", "a"]
)
def test_a_pattern_that_could_match_nothing_is_refused(pattern: str) -> None:
    assert glob_fault(pattern)
