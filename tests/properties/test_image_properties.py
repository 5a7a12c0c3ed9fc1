"""No text that somebody gives for an image becomes another line, word or option of a build."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from aisb.domain.base_image import parse_base_image
from aisb.domain.fragment import parse_fragment
from aisb.domain.freshness import parse_freshness
from aisb.domain.images import GATE, SANDBOX, parse_node_line, parse_node_origin
from aisb.domain.packages import parse_packages
from aisb.domain.registry_mirror import parse_registry_mirror
from aisb.effects.node_mirror import parse_mirror
from aisb.errors import UsageError
from aisb.render.images import containerfile
from tests.image_values import make_inputs

# What shells, apt, podman and Containerfiles read as more than a letter, between what is right.
pieces = st.sampled_from([
    "jq", "debian", ":trixie", "localhost/", "registry.test:5000/", "@sha256:", "0" * 64, "bootstrap:", "=1.7*", "https://",
    "; x", "\n", "\r", "\0", " ", "\t", "-", "--", "-o=APT::Get::x=1", "../", "/", "$(id)", "`id`", "'", '"', "\\", "#", "&&", "|",
    "\u2028", "\u0131", "\uff11", "\ud800", "RUN true", "{{ x }}", "<<E", "%", "=", "@", ":",
])  # fmt: skip
hostile = st.lists(pieces, max_size=5).map("".join) | st.text(max_size=40)


def accepted(parse: object, text: str) -> object:
    """What comes of a text, None where it is refused as a mistake of whoever wrote it: that ends with 2."""
    try:
        return parse(text)  # type: ignore[operator]
    except UsageError:
        return None


@given(hostile)
@example("jq; x")
@example("-o=APT::Get::AllowUnauthenticated=1")
def test_a_package_is_one_quoted_word_or_refused(text: str) -> None:
    found = accepted(lambda value: parse_packages([value]), text)

    assert found is None or (found == (text,) and re.fullmatch(r"[a-z0-9][A-Za-z0-9+.:~=*-]+", text))


@given(hostile)
@example("debian:trixie\nRUN true")
@example("x@sha256:short")
@example("../x:1")
def test_a_base_is_one_word_of_a_reference_or_refused(text: str) -> None:
    found = accepted(parse_base_image, text)

    assert found is None or re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*", text)


@given(hostile)
def test_the_other_options_take_the_few_words_that_they_know(text: str) -> None:
    assert accepted(parse_node_line, text) is None or text in ("", "22", "24")
    assert accepted(parse_node_origin, text) is None or text in ("", "npm", "tarball")
    days = accepted(lambda value: parse_freshness({"AISB_BASE_TTL_DAYS": value}), text)
    assert days is None or re.fullmatch(r"|-1|0|[1-9][0-9]{0,4}", text)


@given(hostile)
def test_a_mirror_is_an_address_without_blanks_or_refused(text: str) -> None:
    for parse in (parse_mirror, parse_registry_mirror):
        found = accepted(parse, text)
        assert found is None or re.fullmatch(r"[A-Za-z0-9._~:/@%\[\]-]*", text)


@given(hostile)
def test_a_fragment_keeps_to_its_place(text: str) -> None:
    """Whatever is in it, the steps around it are there, each on lines of its own."""
    found = accepted(lambda value: parse_fragment(value.encode("utf-8", "surrogatepass"), "f"), text)
    if found is None:
        return

    rendered = containerfile(SANDBOX, make_inputs(fragment=str(found)))
    plain = containerfile(SANDBOX, make_inputs())

    assert [
        line
        for line in rendered.split("\n")
        if re.match(r"\s*(FROM|ENTRYPOINT|CMD|STOPSIGNAL|COPY)\b", line, re.IGNORECASE)
    ] == [line for line in plain.split("\n") if re.match(r"(FROM|ENTRYPOINT|CMD|STOPSIGNAL|COPY)\b", line)]
    assert rendered.endswith(plain[plain.index("\nRUN", plain.index(" agent ")) :])
    assert containerfile(GATE, make_inputs(fragment=str(found))) == containerfile(GATE, make_inputs())
