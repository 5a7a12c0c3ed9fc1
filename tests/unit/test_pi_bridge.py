"""What of the host's pi goes along into a sandbox, and what is said of it."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from aisb.cli.pi import Along, along, tokens_of
from aisb.cli.request import read_request
from aisb.cli.splitter import split
from aisb.domain.egress import read_policy
from aisb.domain.inject_flag import Injected
from aisb.domain.layers import Setting
from aisb.domain.pi_bridge import bridge
from aisb.domain.pi_tokens import Named, parse_token_names
from aisb.domain.pi_values import (
    NO_TOKEN,
    Bridge,
    Chosen,
    Drop,
    ImagePi,
    PiFiles,
    PiWish,
    Provider,
    Token,
    bridge_json,
    chosen_in,
    read_bridge,
)
from aisb.effects.pi import bridged, opener, parse_image_pi, pi_of, read_pi
from aisb.effects.run import seed_files
from aisb.effects.situation import pi_directory
from aisb.effects.state import Directories
from aisb.effects.workshop import Workshop
from aisb.errors import Unavailable, Untrusted, UsageError
from aisb.render.pi import (
    Missing,
    bridge_lines,
    entry_of,
    missing_of,
    others_line,
    others_of,
    seed_lines,
    shown,
    trace_lines,
)
from tests.fakes import FakeRunner, said

if TYPE_CHECKING:
    from pathlib import Path

    from aisb.cli.request import Request
    from aisb.domain.policy import Policy
    from aisb.effects.plan import Plan

NEW, OLD = (
    ImagePi("@earendil-works/pi-coding-agent", "1.6.0"),
    ImagePi("@mariozechner/pi-coding-agent", "0.73.1"),
)
KEY = "sk-live-0123456789abcdef"
GATEWAY = Provider("gw", (("llm.test", 443),), wants_key=True)
LOCAL = Provider("local", (("localhost", 11434),), wants_key=True)
VENDOR = Provider("vendor", (("cdn.test", 443),), wants_key=True)
CLAUDE = Provider("anthropic", (("api.anthropic.com", 443),), wants_key=True)


def files(settings: dict[str, object] | None = None, **providers: dict[str, object]) -> PiFiles:
    models = json.dumps({"providers": providers}).encode() if providers else None
    return PiFiles("/h/.pi/agent", models, None if settings is None else json.dumps(settings).encode())


def is_listed(place: tuple[str, int]) -> bool:
    return place in {("llm.test", 443), ("cdn.test", 443)}


@pytest.mark.parametrize(("pi", "reference"), [(NEW, "$AI_API_TOKEN"), (OLD, "AI_API_TOKEN")], ids=["new", "old"])
def test_the_sandbox_gets_the_hosts_pi_without_its_credential(pi: ImagePi, reference: str) -> None:
    found = files(
        {"defaultProvider": "gw", "theme": "dark", "sessionDir": "~/s"},
        gw={"baseUrl": "https://llm.test/v1", "apiKey": KEY, "headers": {"X-From": "!hostname"}, "new": 1},
        local={"baseUrl": "http://localhost:11434/v1", "apiKey": "ollama", "api": "openai-completions"},
    )

    made = bridge(found, pi, is_listed, PiWish())

    assert {name: json.loads(text) for name, text in made.files.items()} == {
        "models.json": {
            "providers": {
                "gw": {"baseUrl": "https://llm.test/v1", "apiKey": reference, "headers": {}, "new": 1},
                "local": {"baseUrl": "http://localhost:11434/v1", "api": "openai-completions"},
            }
        },
        "settings.json": {"defaultProvider": "gw", "theme": "dark", "lastChangelogVersion": pi.version},
    }
    assert made._replace(files={}) == Bridge(
        files={},
        tokens=(Token("AI_API_TOKEN", GATEWAY),),
        drops=(
            Drop("models.json: providers.gw.headers.X-From", "a command: nothing of this host is run"),
            Drop("models.json: providers.local.apiKey", "no token was given for this provider"),
            Drop("settings.json: sessionDir", "a directory of this host"),
        ),
        selected=GATEWAY,
        closed=(LOCAL,),
        undecided=(),
    )


def test_a_key_of_the_models_is_not_in_the_settings_either() -> None:
    made = bridge(
        files({"note": f"it is {KEY}"}, gw={"baseUrl": "https://llm.test/v1", "apiKey": KEY}), NEW, is_listed, PiWish()
    )

    assert KEY not in made.files["settings.json"]
    assert made.drops == (Drop("settings.json: note", "it holds one of the keys of pi"),)


NO_MODELS = '{\n  "providers": {}\n}\n'


def test_both_files_are_there_in_any_case() -> None:
    """pi would make settings itself; and models that an earlier run wrote would stay, with their reference to a token."""
    seen = '{\n  "lastChangelogVersion": "1.6.0"\n}\n'

    assert bridge(files({"lastChangelogVersion": "9"}), NEW, is_listed, PiWish()).files == {
        "models.json": NO_MODELS,
        "settings.json": seen,
    }
    assert bridge(files(gw={}), NEW, is_listed, PiWish()).files == {
        "models.json": '{\n  "providers": {\n    "gw": {}\n  }\n}\n',
        "settings.json": seen,
    }


def test_of_a_provider_that_is_partly_closed_only_that_part_is_named() -> None:
    models: list[object] = [{"baseUrl": "https://other.test"}]
    found = files(gw={"baseUrl": "https://llm.test", "apiKey": KEY, "models": models})

    made = bridge(found, NEW, is_listed, PiWish())

    assert made.closed == (GATEWAY._replace(places=(("other.test", 443),)),)
    assert made.tokens == ()


@pytest.mark.parametrize(
    ("chosen", "default", "selected"),
    [
        (Chosen(), "gw", "gw"),
        (Chosen("vendor"), "gw", "vendor"),
        (Chosen("", "vendor/m"), "gw", "vendor"),
        (Chosen("", "meta/m"), "gw", "gw"),
        (Chosen("unheard-of"), "gw", None),
        (Chosen(), None, None),
        (Chosen(), "anthropic", "anthropic"),
        (Chosen(), "unheard-of", None),
    ],
)
def test_the_provider_that_pi_begins_with(chosen: Chosen, default: str | None, selected: str | None) -> None:
    settings: dict[str, object] = {"defaultProvider": default} if default else {}

    made = bridge(files(settings, gw={"apiKey": "a"}, vendor={"apiKey": "b"}), NEW, is_listed, PiWish(), chosen)

    assert (made.selected.name if made.selected else None) == selected


def test_the_only_provider_is_the_one_that_pi_begins_with() -> None:
    made = bridge(files(gw={"apiKey": "a"}), NEW, is_listed, PiWish())

    assert made.selected == Provider("gw", (), wants_key=True)


def test_one_that_pi_knows_by_itself_is_closed_like_any_other() -> None:
    made = bridge(files({"defaultProvider": "anthropic"}), NEW, is_listed, PiWish())

    known = CLAUDE._replace(headers=("X-Api-Key", "Authorization"))
    assert (made.selected, made.closed) == (known, (known,))


def test_one_that_only_the_settings_name_has_a_token_too() -> None:
    """Its key is where nothing is opened; what pi reads is a provider with a key, beside those that are there."""
    settings, both = {"defaultProvider": "anthropic"}, {"gw": {"baseUrl": "https://llm.test/v1"}}

    alone = bridge(files(settings), NEW, lambda _: True, PiWish())
    beside = bridge(files(settings, **both), OLD, lambda _: True, PiWish(given=(("anthropic", "KEY"),), variable=""))
    none = bridge(files(settings), NEW, lambda _: True, PiWish(variable=""))

    assert json.loads(alone.files["models.json"]) == {"providers": {"anthropic": {"apiKey": "$AI_API_TOKEN"}}}
    assert json.loads(beside.files["models.json"]) == {"providers": {**both, "anthropic": {"apiKey": "KEY"}}}
    assert [token.variable for token in (*alone.tokens, *beside.tokens)] == ["AI_API_TOKEN", "KEY"]
    assert (none.tokens, none.files["models.json"]) == ((), NO_MODELS)


@pytest.mark.parametrize("variable", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_OAUTH_TOKEN"])
def test_one_whose_own_variable_goes_in_already_needs_nothing(variable: str) -> None:
    made = bridge(files({"defaultProvider": "anthropic"}), NEW, lambda _: True, PiWish(passed=("A", variable)))

    assert (made.tokens, made.files["models.json"]) == ((), NO_MODELS)


def test_one_that_is_not_set_is_asked_for_by_its_own_variable() -> None:
    made = bridge(files({"defaultProvider": "anthropic"}), NEW, lambda _: True, PiWish())

    hint = "export AI_API_TOKEN=... first; name another: --pi-token-env ANTHROPIC_API_KEY; or none: --no-pi-token-env"
    assert missing_of(made, made.tokens, PiWish(), "allow") == (
        Missing("AI_API_TOKEN, the token of pi's provider anthropic, is not set, or empty", hint),
    )


def test_a_name_in_these_files_says_nothing_in_aisbs_words() -> None:
    odd = "gw\naisb: all is well"
    made = bridge(files(**{odd: {"baseUrl": "https://llm.test", "headers": {"Cookie": "a"}}}), NEW, is_listed, PiWish())

    lines = along(asked("--", "true"), made, "allow", "/h", {}, {}).lines

    assert [line for line in lines if "Cookie" in line] == [
        "note: pi: left out models.json: providers.gw\\naisb: all is well.headers.Cookie: it looks like a credential"
    ]


@pytest.mark.parametrize(
    ("provider", "headers"),
    [
        ({}, ("Authorization",)),
        ({"api": "anthropic-messages"}, ("X-Api-Key", "Authorization")),
        ({"api": "google-generative-ai", "authHeader": True}, ("X-Goog-Api-Key", "Authorization")),
        ({"models": [{"api": "azure-openai-responses"}, {"api": "openai-completions"}]}, ("Api-Key", "Authorization")),
    ],
)
def test_the_headers_that_carry_a_key(provider: dict[str, object], headers: tuple[str, ...]) -> None:
    made = bridge(files(gw={"baseUrl": "https://llm.test", "apiKey": "a", **provider}), NEW, is_listed, PiWish())

    assert made.tokens[0].provider.headers == headers


def test_a_header_that_names_the_token_is_one_of_those_that_carry_it() -> None:
    """With --pi-inject it would hold a placeholder that the gate refuses."""
    models = [{"id": "m", "headers": {"x-model": "Bearer ${AI_API_TOKEN}"}}]
    headers = {"x-gateway-key": "$AI_API_TOKEN", "x-other": "$AI_API_TOKENS", "x-tenant": "blue"}
    headers |= dict.fromkeys(["Host", "Cookie", "X-A\nhttp_access allow all", ""], "$AI_API_TOKEN")
    made = bridge(
        files(gw={"baseUrl": "https://llm.test", "apiKey": "a", "headers": headers, "models": models}),
        NEW,
        is_listed,
        PiWish(),
    )

    assert made.tokens[0].provider.headers == ("Authorization", "X-Gateway-Key", "X-Model")


def test_a_bridge_that_was_kept_is_the_same() -> None:
    made = Bridge(
        {"a": "b"}, (Token("T", GATEWAY),), (Drop("x", "y"),), GATEWAY, (LOCAL, CLAUDE), (VENDOR._replace(headers=()),)
    )

    assert read_bridge(bridge_json(made)) == made
    assert read_bridge(bridge_json(made._replace(selected=None))) == made._replace(selected=None)
    for text in ("", "[]", '[{}, [], [], ["a", 1, true, []], [], []]'):
        with pytest.raises((ValueError, TypeError)):
            read_bridge(text)


def test_what_the_arguments_say_of_the_provider() -> None:
    assert chosen_in(("pi", "--provider", "a", "-p", "x", "--model", "b/c")) == Chosen("a", "b/c")
    assert chosen_in(("pi", "--provider", "a", "--provider", "b", "--model")) == Chosen("b", "")
    assert chosen_in(()) == Chosen()


def named(*texts: str) -> Named:
    return parse_token_names([Setting(text, "--pi-token-env") for text in texts])


def test_the_names_of_tokens() -> None:
    assert named() == Named("AI_API_TOKEN", ())
    assert named("A", "B") == Named("B", ())
    assert named("gw=A", "x=y=B", "gw=C") == Named("", (("gw", "C"), ("x=y", "B")))
    assert named("gw=A", "B") == Named("B", (("gw", "A"),))


@pytest.mark.parametrize("text", ["", "1A", "A-B", "A B", "=A", "gw=", "gw=sk-live", "sk-live-0123", "$A", "a\nB"])
def test_what_is_no_name_of_a_variable_is_not_repeated(text: str) -> None:
    """(C16) It may be the token itself."""
    with pytest.raises(UsageError) as caught:
        named(text)

    assert caught.value.message == "--pi-token-env: this is not the name of a variable"


@pytest.mark.parametrize("name", ["HOME", "HTTPS_PROXY", "no_proxy"])
def test_what_the_sandbox_sets_itself_holds_no_token(name: str) -> None:
    """(C16)"""
    with pytest.raises(UsageError, match=f"{name}: the sandbox has a {name} of its own"):
        named(f"gw={name}")


# --- what is asked for ----------------------------------------------------------------------------


def asked(*words: str, **environ: str) -> Request:
    return read_request(split(["--allow", "llm.test", *words], frozenset({"learn"})), environ)


def learning(*words: str) -> Request:
    return read_request(split(["learn", *words], frozenset({"learn"})), {})


def test_what_is_wanted_of_pi() -> None:
    assert asked().pi == PiWish()
    assert asked("--no-pi-config").pi == PiWish(wanted=False)
    assert asked("--no-pi-token-env").pi == PiWish(variable="")
    assert asked(AISB_NO_PI_TOKEN_ENV="1", AISB_PI_INJECT="1").pi == PiWish(variable="", inject=True)
    assert asked("--pi-token-env", "gw=A", "--pi-inject").pi == PiWish(variable="", given=(("gw", "A"),), inject=True)
    assert asked("--pi-token-env", "A").pi == PiWish(variable="A")


def test_under_learn_no_token_goes_in_without_a_yes() -> None:
    assert learning().pi == PiWish(variable="", withheld=True)
    assert learning("--yes").pi == PiWish(variable="", withheld=True)
    assert learning("--yes", "--pi-token-env", "A").pi == PiWish(variable="A")
    assert learning("--no-pi-token-env").pi == PiWish(variable="")
    with pytest.raises(UsageError, match="could send it to any host"):
        learning("--pi-token-env", "A")


def test_a_token_and_none_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="--pi-token-env and --no-pi-token-env exclude each other"):
        asked("--no-pi-token-env", "--pi-token-env", "A")


def test_which_command_is_the_harness() -> None:
    assert [asked(*words).harness for words in ((), ("-p", "x"), ("--", "pi"), ("--shell",))] == ["pi", "pi", "", ""]
    assert [asked(*words).command[0] for words in ((), ("-p", "x"), ("--", "npm"))] == ["pi", "pi", "npm"]


# --- what is missing ------------------------------------------------------------------------------

WISH = PiWish()
EMPTY = Bridge({}, (), (), None, (), ())


@pytest.mark.parametrize(
    ("place", "entry", "text"),
    [
        (("llm.test", 443), "llm.test", "llm.test"),
        (("llm.test", 8443), "llm.test:8443", "llm.test:8443"),
        (("localhost", 11434), "host:11434", "localhost:11434"),
        (("127.0.0.1", 80), "host:80", "127.0.0.1"),
        (("::1", 8080), "host:8080", "[::1]:8080"),
        (("host.aisb.internal", 1), "host:1", "host.aisb.internal:1"),
        (("10.1.2.3", 8080), "10.1.2.3:8080", "10.1.2.3:8080"),
        (("169.254.169.254", 80), "", "169.254.169.254"),
        (("https://me:pw@", 0), "", "a baseUrl that names no host"),
    ],
)
def test_the_entry_for_a_place(place: tuple[str, int], entry: str, text: str) -> None:
    assert (entry_of(place), shown(place)) == (entry, text)


@pytest.mark.parametrize(
    ("provider", "net", "hint"),
    [
        (GATEWAY, "allow", "add: --allow llm.test"),
        (LOCAL, "allow", "add: --allow host:11434"),
        (GATEWAY._replace(places=(("a.test", 443), ("b.test", 1))), "allow", "add: --allow a.test --allow b.test:1"),
        (GATEWAY, "none", "add: --net allow --allow llm.test"),
        (LOCAL, "full", "add: --net allow --allow host:11434"),
        (GATEWAY._replace(places=(("x", 0),)), "allow", "mend its baseUrl, or run without it: --no-pi-config"),
    ],
)
def test_a_selected_provider_that_is_closed_is_named_with_its_entry(provider: Provider, net: str, hint: str) -> None:
    (found,) = missing_of(EMPTY._replace(selected=provider, closed=(provider,)), (), WISH, net)

    places = " and ".join(map(shown, provider.places))
    assert found == Missing(f"pi's provider {provider.name} is at {places}, which is not allowed", hint)


def test_one_that_could_be_chosen_later_is_no_reason() -> None:
    assert missing_of(EMPTY._replace(selected=GATEWAY, closed=(LOCAL,)), (), WISH, "allow") == ()


def test_two_hosts_ask_whose_the_token_is() -> None:
    both = EMPTY._replace(undecided=(GATEWAY, VENDOR))
    what = "pi's providers gw and vendor are at different hosts, and one token goes to one host"

    assert [missing_of(both._replace(selected=one), (), WISH, "allow") for one in (None, VENDOR, LOCAL)] == [
        (Missing(what, "say whose it is: --pi-token-env gw=AI_API_TOKEN"),),
        (Missing(what, "say whose it is: --pi-token-env vendor=AI_API_TOKEN"),),
        (Missing(what, "say whose it is: --pi-token-env gw=AI_API_TOKEN", is_needed=False),),
    ]


def test_one_that_was_left_out_when_others_were_named_has_no_token() -> None:
    wish = PiWish(variable="", given=(("gw", "T"),))
    made = EMPTY._replace(tokens=(Token("T", GATEWAY),), selected=VENDOR)

    assert missing_of(made, (), wish, "allow") == (
        Missing("pi's provider vendor has no token", "name one: --pi-token-env vendor=NAME"),
    )
    others = [made._replace(selected=GATEWAY), made._replace(selected=VENDOR._replace(wants_key=False))]
    assert [missing_of(one, (), wish, "allow") for one in others] == [(), ()]
    assert missing_of(made, (), PiWish(variable=""), "allow") == ()


def test_a_token_that_is_not_set_is_named_once() -> None:
    same = GATEWAY._replace(name="same")

    assert missing_of(EMPTY, (Token("T", GATEWAY), Token("T", same)), WISH, "allow") == (
        Missing(
            "T, the token of pi's provider gw and same, is not set, or empty",
            "export T=... first; name another: --pi-token-env NAME; or none: --no-pi-token-env",
        ),
    )


def test_a_token_that_is_withheld_is_said() -> None:
    wish = PiWish(variable="", withheld=True)

    assert missing_of(EMPTY._replace(selected=GATEWAY), (), wish, "allow") == (
        Missing(
            "no token of pi's goes in under aisb learn", "say that you want that: aisb learn --yes --pi-token-env NAME"
        ),
    )
    assert missing_of(EMPTY._replace(selected=GATEWAY._replace(wants_key=False)), (), wish, "allow") == ()


def test_others_are_one_line_and_a_trace_has_each() -> None:
    odd = Provider("odd", (("x", 0),), wants_key=True)
    made = EMPTY._replace(selected=GATEWAY, closed=(GATEWAY, LOCAL, odd))

    others = others_of(made)

    assert others == (LOCAL, odd)
    assert [others_line(others), others_line(others[:1])] == [
        "warning: 2 more providers of pi's are configured and not allowed (--trace names what would allow it)",
        "warning: 1 more provider of pi's is configured and not allowed (--trace names what would allow it)",
    ]
    assert trace_lines(others) == [
        "pi's provider local is at localhost:11434: --allow host:11434",
        "pi's provider odd is at a baseUrl that names no host: nothing allows that",
    ]
    assert others_of(made._replace(closed=(GATEWAY,))) == ()


def test_what_goes_along_is_announced_and_each_drop_is_a_line() -> None:
    made = EMPTY._replace(
        files={"models.json": "", "settings.json": ""},
        drops=(Drop("models.json: providers.gw.apiKey", NO_TOKEN), Drop("models.json: providers.gw.note", "a key")),
    )

    assert bridge_lines(made, [Token("A", GATEWAY)], [Token("B", VENDOR)], "/h", trace=False) == [
        "pi: models.json and settings.json of /h; A for llm.test goes in (--pi-inject keeps it out); "
        "B for cdn.test stays in the gate",
        "note: pi: left out models.json: providers.gw.note: a key",
    ]
    assert len(bridge_lines(made, [], [], "/h", trace=True)) == 3


def test_what_was_edited_inside_is_said_with_the_command_that_takes_the_hosts() -> None:
    seeds = [("new", "a"), ("same", "b"), ("edited", ".pi/agent/c"), ("both", ".pi/agent/d")]

    assert seed_lines(seeds, "aisb-home-x") == [
        "note: /home/sandbox/.pi/agent/c was edited inside, and stays so",
        "note: /home/sandbox/.pi/agent/d was edited inside and stays so, though this host has another version now; "
        "to take that: aisb --net none --no-pi-config -- rm /home/sandbox/.pi/agent/d",
    ]
    assert "--no-pi-config --shared-home -- rm" in seed_lines([("both", "d")], "aisb-home")[0]


# --- a run ----------------------------------------------------------------------------------------

MADE = EMPTY._replace(files={"models.json": "{}\n"}, tokens=(Token("T", GATEWAY),), selected=GATEWAY)


def taken(
    request: Request, made: Bridge = MADE, net: str = "allow", environ: dict[bytes, bytes] | None = None
) -> Along:
    return along(request, made, net, "/h", {}, {b"T": b"0123456789"} if environ is None else environ)


def test_a_token_goes_in_by_its_name() -> None:
    assert taken(asked()) == Along(
        files={".pi/agent/models.json": "{}\n"},
        variables={b"T": b"0123456789"},
        lines=("pi: models.json of /h; T for llm.test goes in (--pi-inject keeps it out)",),
    )
    assert taken(asked("-q")).lines == ()


def test_a_variable_that_goes_in_already_is_the_one() -> None:
    found = along(asked("--env", "T=other"), MADE, "allow", "/h", {b"T": b"other"}, {b"T": b"the host's"})

    assert found.variables == {b"T": b"other"}


@pytest.mark.parametrize("environ", [{}, {b"T": b""}], ids=["unset", "empty"])
def test_without_a_token_pi_is_refused_and_another_command_is_not(environ: dict[bytes, bytes]) -> None:
    """(C16)"""
    with pytest.raises(UsageError) as caught:
        taken(asked("-p", "x"), environ=environ)

    assert caught.value.message == "T, the token of pi's provider gw, is not set, or empty"
    assert taken(asked("--", "npm", "test"), environ=environ) == Along(
        files={".pi/agent/models.json": "{}\n"},
        lines=(
            "pi: models.json of /h",
            "warning: pi would not work as it is: T, the token of pi's provider gw, is not set, or empty (export T=... first; "
            "name another: --pi-token-env NAME; or none: --no-pi-token-env)",
        ),
    )


def test_what_is_no_reason_to_refuse_is_a_warning_to_pi_too() -> None:
    made = MADE._replace(undecided=(VENDOR, CLAUDE), closed=(LOCAL,))

    assert [line.partition(" (")[0] for line in taken(asked(), made).lines[1:]] == [
        "warning: pi would not work as it is: pi's providers vendor and anthropic are at different hosts, and one token "
        "goes to one host",
        "warning: 1 more provider of pi's is configured and not allowed",
    ]
    assert taken(asked("--trace"), made).lines[3:] == ("pi's provider local is at localhost:11434: --allow host:11434",)


def test_another_command_is_warned_once() -> None:
    made = MADE._replace(closed=(GATEWAY, LOCAL), tokens=())

    assert taken(asked("--", "x"), made).lines[1:] == (
        "warning: pi would not work as it is: pi's provider gw is at llm.test, which is not allowed "
        "(add: --allow llm.test); 1 more provider of pi's is configured and not allowed (--trace names what would "
        "allow it)",
    )
    assert taken(asked("--", "x"), made._replace(closed=(LOCAL,))).lines[1:] == (others_line([LOCAL]),)


def test_with_pi_inject_the_token_is_the_gates() -> None:
    claude = CLAUDE._replace(headers=("X-Api-Key", "Authorization"))
    made = MADE._replace(tokens=(Token("T", GATEWAY), Token("T", GATEWAY._replace(name="same")), Token("A", claude)))

    found = taken(asked("--pi-inject"), made, environ={b"T": b"0123456789", b"A": b"9876543210"})

    assert found == Along(
        files={".pi/agent/models.json": "{}\n"},
        injections=(
            Injected("T", "llm.test", "Authorization", "--pi-inject"),
            Injected("A", "api.anthropic.com", "X-Api-Key", "--pi-inject"),
            Injected("A", "api.anthropic.com", "Authorization", "--pi-inject"),
        ),
        lines=("pi: models.json of /h; T for llm.test and A for api.anthropic.com stays in the gate",),
    )
    assert found.shown() == {b"T": b"", b"A": b""}


def test_what_is_injected_already_is_left_to_that() -> None:
    request = asked("--inject", "T@llm.test", "--pi-inject")

    found = along(request, MADE, "allow", "/h", {b"T": b"placeholder"}, {})

    assert (found.variables, found.injections) == ({}, ())
    assert found.lines == ("pi: models.json of /h; T for llm.test stays in the gate",)


@pytest.mark.parametrize(
    ("made", "net", "environ", "message"),
    [
        (MADE, "full", {b"T": b"0123456789"}, "--pi-inject has no meaning under --net full"),
        (MADE, "pinned", {b"T": b"0123456789"}, "--pi-inject has no meaning under --no-gate"),
        (
            MADE._replace(tokens=(Token("T", LOCAL),)),
            "allow",
            {b"T": b"0123456789"},
            "--pi-inject: pi's provider local is at localhost:11434, and a gate puts tokens into requests over TLS",
        ),
        (
            MADE._replace(tokens=(Token("T", GATEWAY), Token("A", GATEWAY._replace(name="b")))),
            "allow",
            {b"T": b"0123456789", b"A": b"9876543210"},
            "--pi-inject: T and A would go into one header of llm.test",
        ),
        (
            MADE._replace(files={"settings.json": '{"x": "0123456789"}'}),
            "allow",
            {b"T": b"0123456789"},
            "--pi-inject: the value of T stands in settings.json too",
        ),
    ],
    ids=["net full", "no gate", "no TLS", "one header", "elsewhere"],
)
def test_what_a_gate_cannot_keep_is_refused(made: Bridge, net: str, environ: dict[bytes, bytes], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        taken(asked("--pi-inject", "--", "x"), made, net, environ)

    assert caught.value.message.startswith(message)


@pytest.mark.parametrize(
    ("words", "token"),
    [
        ([], ("AI_API_TOKEN", "gw at llm.test, goes in")),
        (["--pi-token-env", "KEY"], ("KEY", "gw at llm.test, goes in")),
        (["--pi-inject"], ("AI_API_TOKEN", "gw at llm.test, stays in the gate")),
        (["--inject", "AI_API_TOKEN@llm.test"], ("AI_API_TOKEN", "gw at llm.test, stays in the gate")),
    ],
)
def test_a_printed_policy_says_which_variable_pi_gets(words: list[str], token: tuple[str, str]) -> None:
    """Set or not."""
    found = files(
        gw={"baseUrl": "https://llm.test/v1", "apiKey": KEY}, far={"baseUrl": "https://x.test", "apiKey": "a"}
    )
    request = asked(*words)
    policy = SimpleNamespace(net="allow", egress=read_policy(POLICY))

    assert tokens_of(request, found, cast("Policy", policy)) == (token,)


def test_files_travel_by_number() -> None:
    assert seed_files({}) == {}
    assert seed_files({".pi/agent/b": "1", ".pi/agent/a": "2"}) == {
        "seeds": ".pi/agent/b\n.pi/agent/a\n",
        "seed-0": "1",
        "seed-1": "2",
    }


# --- the host -------------------------------------------------------------------------------------


def test_where_the_hosts_pi_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, other = tmp_path / "home", tmp_path / "home/other"
    environ = {"HOME": str(home)}
    monkeypatch.setenv("HOME", str(home))
    assert pi_directory(environ) == ""

    (home / ".pi/agent").mkdir(parents=True)
    (home / ".pi/agent/auth.json").touch()
    assert pi_directory(environ) == ""

    (home / ".pi/agent/settings.json").touch()
    assert pi_directory(environ) == f"{home}/.pi/agent"
    assert pi_directory({**environ, "PI_CODING_AGENT_DIR": "~/other"}) == ""
    other.mkdir()
    (other / "models.json").touch()
    assert pi_directory({**environ, "PI_CODING_AGENT_DIR": "~/other"}) == str(other)


def test_two_files_are_read_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"{}")
    (tmp_path / "models.json").symlink_to("real")
    (tmp_path / "auth.json").mkdir(mode=0)

    assert read_pi(str(tmp_path), []) == PiFiles(str(tmp_path), b"{}", None)


def test_what_the_agent_can_write_does_not_say_where_a_token_goes(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "dotfiles.json").write_bytes(b"{}")
    (tmp_path / "pi").mkdir()
    (tmp_path / "pi/models.json").symlink_to(project / "dotfiles.json")

    with pytest.raises(Untrusted, match=f"models.json leads through {project}, where an agent can change it"):
        read_pi(str(tmp_path / "pi"), ["", str(project)])


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_refused(tmp_path: Path, make: object) -> None:
    assert callable(make)
    make(tmp_path / "settings.json")

    with pytest.raises(UsageError, match=r"settings.json"):
        read_pi(str(tmp_path), [])


POLICY = (
    '{"addresses":[],"host_ports":[11434],"injections":[],"learn":false,'
    '"names":[{"host":"llm.test","match":"exact","ports":[443]}],"rules":[],"version":4}\n'
)


def test_what_is_open_is_what_the_gate_says() -> None:
    places = [("llm.test", 443), ("llm.test", 80), ("a.llm.test", 443), ("localhost", 11434), ("::1", 1), ("://", 0)]

    assert [opener("allow", POLICY)(place) for place in places] == [True, False, False, True, False, False]
    assert [opener("full", POLICY)(place) for place in places] == [True, True, True, False, False, False]


def make_plan(net: str = "allow") -> Plan:
    from aisb.effects.plan import Plan

    files = {"policy.json": POLICY}
    return Plan(net, "u", "h", "", 1, 0, (), "localhost/s:1", "localhost/g:1", "", files, {}, "", "", False, ())


def test_a_bridge_is_kept_until_something_of_it_changes(tmp_path: Path) -> None:
    cache = str(tmp_path)
    found = files(gw={"baseUrl": "https://llm.test", "apiKey": KEY})

    first = bridged(cache, "programs", found, NEW, make_plan(), PiWish(), Chosen())
    (kept,) = (tmp_path / "pi").iterdir()
    kept.write_text(bridge_json(EMPTY))
    same = bridged(cache, "programs", found, NEW, make_plan(), PiWish(), Chosen())
    others = [
        bridged(cache, "programs", found, OLD, make_plan(), PiWish(), Chosen()),
        bridged(cache, "programs", found, NEW, make_plan("full"), PiWish(), Chosen()),
        bridged(cache, "programs", found, NEW, make_plan(), PiWish(variable="T"), Chosen()),
        bridged(cache, "programs", found, NEW, make_plan(), PiWish(), Chosen("x")),
        bridged(cache, "other programs", found, NEW, make_plan(), PiWish(), Chosen()),
        bridged(cache, "programs", found._replace(settings=b"{}"), NEW, make_plan(), PiWish(), Chosen()),
    ]

    assert first.tokens == (Token("AI_API_TOKEN", GATEWAY),)
    assert same == EMPTY
    assert EMPTY not in others
    assert KEY not in "".join(path.read_text() + path.name for path in (tmp_path / "pi").iterdir())


def test_a_bridge_that_cannot_be_read_is_made_again(tmp_path: Path) -> None:
    found = files({"theme": "dark"})
    first = bridged(str(tmp_path), "", found, NEW, make_plan(), PiWish(), Chosen())
    (kept,) = (tmp_path / "pi").iterdir()
    kept.write_text("[")

    assert bridged(str(tmp_path), "", found, NEW, make_plan(), PiWish(), Chosen()) == first


def test_which_pi_an_image_holds_is_asked_once(tmp_path: Path) -> None:
    runner = FakeRunner(said("@mariozechner/pi-coding-agent 0.73.1\n"))
    directories = Directories(*(str(tmp_path) for _ in range(4)))
    shop = Workshop("podman", directories, {}, runner, None, 0.0)  # type: ignore[arg-type]  # nothing is built

    assert [pi_of(shop, "localhost/s:1"), pi_of(shop, "localhost/s:1")] == [OLD, OLD]
    assert [argv[:4] for argv in runner.argvs] == [("podman", "image", "inspect", "--format")]


@pytest.mark.parametrize("package", ["", "<no value> <no value>", "pi 1"])
def test_a_pi_of_which_nothing_is_known_is_an_error(package: str) -> None:
    with pytest.raises(Unavailable, match="how that names a variable is not known"):
        parse_image_pi(package, "image")
