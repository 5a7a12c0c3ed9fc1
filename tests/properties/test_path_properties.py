"""
What holds for every path: one that is accepted leads to the same place whoever reads it.

The oracles are decoders that servers have been seen to have, written without a look at the check.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from urllib.parse import quote, unquote

from hypothesis import example, given
from hypothesis import strategies as st

from aisb.domain.http_rules import HostPolicy, HostRules, Rule
from aisb.domain.paths import form_fault, glob_fault, glob_regex, readings, without_query

pieces = st.sampled_from([
    "/", "/", "//", ".", "..", "...", ";", ";x=1", "%3b", "%2e", "%2E", "%2f", "%5c", "\\", "%25", "%252e", "%252f", "%00", "%20",
    "%C0%AE", "%C0%AF", "%E0%80%AE", "%EF%BC%8E", "%EF%BC%8F", "%E2%80%A5", "%E2%81%84", "%u002e", "%u2215", "%C3%A9", "%E9", "%e4%b8%ad",
    "a", "b", "pub", "secret", "A", "%41", "%61", "%7e", "~", "+", "%2B", "%3F", "?", "#", "%23", " ", "\t", "%", "%a", "é", "*", "@",
])  # fmt: skip
paths = st.one_of(
    st.lists(pieces, max_size=8).map(lambda parts: "/" + "".join(parts)),
    st.text(alphabet="/.%2eEfF;a\\?#", max_size=16),
    st.text(max_size=12),
)


def decode_once(path: str) -> str:
    return unquote(path, errors="surrogateescape")


def decode_twice(path: str) -> str:
    return unquote(decode_once(path), errors="surrogateescape")


def decode_as_latin(path: str) -> str:
    return unquote(path, encoding="latin-1")


def decode_percent_u(path: str) -> str:
    return unquote(re.sub("%u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), path), errors="surrogateescape")


def decode_overlong(path: str) -> str:
    """As decoders did that only shift bits: two bytes that begin with C0 or C1 are an ASCII character."""
    data = re.sub(
        "[\xc0\xc1]([\x80-\xbf])",
        lambda match: chr(((ord(match[0][0]) & 3) << 6) | (ord(match[1]) & 63)),
        decode_as_latin(path),
    )
    return data.encode("latin-1", "replace").decode("utf-8", "surrogateescape")


def decode_and_fold(path: str) -> str:
    return unicodedata.normalize("NFKC", decode_once(path)).replace("\u2215", "/").replace("\u2044", "/")


DECODERS = (str, decode_once, decode_twice, decode_percent_u, decode_overlong, decode_and_fold)


def drop_parameters(path: str) -> str:
    return re.sub(r";[^/]*", "", path)


def drop_tail(path: str) -> str:
    return re.split(r"[?#\0]", path)[0]


def drop_blanks(path: str) -> str:
    """As Windows does: a name does not end in dots and blanks."""
    return "/".join(segment if segment in (".", "..") else segment.rstrip(". ") for segment in path.split("/"))


STRIPPERS = (str, drop_parameters, drop_tail, drop_blanks, lambda path: drop_blanks(drop_parameters(drop_tail(path))))


def depth(path: str) -> int:
    return len([segment for segment in path.split("/") if segment])


def places(path: str) -> set[str]:
    """Where any of these servers would look: parts stripped, slashes folded, dots resolved."""
    stripped = {strip(decode(path)) for decode in DECODERS for strip in STRIPPERS}
    return stripped | {posixpath.normpath(text.replace("\\", "/")) for text in stripped}


@given(paths)
@example("/pub/..%3bx/secret")
@example("/secret%23.png")
@example("/a%2fb")
@example("/pub/%20/x")
@example("/a%EF%BC%8Fb")
@example("/pub/%E2%80%A5/x")
@example("/pub/%u002e%u002e/secret")
@example("/pub/%C0%AE%C0%AE/secret")
def test_an_accepted_path_is_the_same_place_to_every_server(path: str) -> None:
    """
    However it is decoded, whatever is stripped and resolved: only one of its spellings comes out, with as many segments.
    """
    if not form_fault(path):
        assert {depth(place) for place in places(path)} == {depth(path)}
        assert places(path) <= set(readings(path)) | {text.removesuffix("/") or "/" for text in readings(path)}


@given(paths)
@example("/secret;x")
@example("/%53ecret")
@example("%20")
@example(".")
@example("%3F/x")
def test_a_denial_is_not_passed_by_another_spelling(path: str) -> None:
    """No path that some server takes for the denied one is allowed, whatever else is."""
    rules = HostRules(HostPolicy("a.test", (Rule("ALLOW", "*", "/.*"), Rule("DENY", "*", "/pub/secret(/.*)?"))))
    for found in (path, f"/pub/secret{path}", f"/pub{path}"):
        if rules.judge("GET", found).allowed:
            for place in places(without_query(found)):
                assert not re.fullmatch("/pub/secret(/.*)?", place)


@given(paths)
def test_an_accepted_path_is_safe_to_print_and_accepted_as_it_is(path: str) -> None:
    if form_fault(path):
        return
    assert re.fullmatch(r"/[!-~]*", path)
    assert not set(path) & set("\\#")
    assert decode_twice(path) == decode_once(path)


@given(st.lists(st.text(alphabet="abz09 é中+:@$&'()*,=!|{}\"", min_size=1, max_size=6), max_size=4))
def test_whatever_is_properly_encoded_is_accepted(segments: list[str]) -> None:
    """A check that refuses everything would hold all the rest too."""
    path = "/" + "/".join(quote(segment, safe="") for segment in segments)
    if all(segment.strip(". ") for segment in segments):
        assert form_fault(path) == ""
        assert unquote(path) in readings(path)


patterns = st.lists(st.sampled_from(["/", "/", "*", "**", "a", "b", ".", "(", "[", "+", "%20"]), max_size=8).map(
    lambda parts: "/" + "".join(parts)
)


@given(
    patterns,
    st.lists(st.sampled_from(["/", "a", "b", "*", ".", "(", "ab", "%20"]), max_size=8).map(
        lambda parts: "/" + "".join(parts)
    ),
)
def test_a_pattern_matches_segment_by_segment(pattern: str, path: str) -> None:
    """Against an oracle that walks both."""
    if glob_fault(pattern):
        return
    assert bool(re.fullmatch(glob_regex(pattern), path)) is walk(pattern.split("/"), path.split("/"))


def walk(pattern: list[str], path: list[str]) -> bool:
    if pattern == ["**"]:
        return bool(path)
    if not pattern or not path:
        return not pattern and not path
    # Alone, the star is a whole segment, and none is empty.
    is_one = path[0] != "" if pattern[0] == "*" else segment_matches(pattern[0], path[0])
    return is_one and walk(pattern[1:], path[1:])


def segment_matches(pattern: str, segment: str) -> bool:
    if not pattern:
        return not segment
    if pattern[0] == "*":
        return (
            any(segment_matches(pattern[1:], segment[count:]) for count in range(len(segment) + 1))
            if pattern[1:]
            else True
        )
    return segment[:1] == pattern[0] and segment_matches(pattern[1:], segment[1:])
