"""What of the host's pi goes into a sandbox, and what does not."""

from __future__ import annotations

import pytest

from aisb.domain.pi_json import parse_pi_json, pi_json
from aisb.domain.pi_models import Rewritten, providers_of, rewrite_models, without_credentials
from aisb.domain.pi_settings import rewrite_settings
from aisb.domain.pi_tokens import Tokens, assign, reference
from aisb.domain.pi_values import Drop, Provider
from aisb.errors import UsageError

KEY = "sk-live-0123456789abcdef"


def rewritten(provider: dict[str, object], reference: str = "$AI_API_TOKEN") -> Rewritten:
    return rewrite_models({"providers": {"gw": provider}}, lambda _name: reference)


@pytest.mark.parametrize("key", [KEY, "!pass show llm", "LLM_KEY", "$LLM_KEY", "${LLM_KEY}", "pre-$LLM_KEY", "ollama"])
def test_every_kind_of_key_becomes_the_one_reference(key: str) -> None:
    assert rewritten({"baseUrl": "https://llm.test/v1", "apiKey": key}) == Rewritten(
        {"providers": {"gw": {"baseUrl": "https://llm.test/v1", "apiKey": "$AI_API_TOKEN"}}}, ()
    )


def test_without_a_token_there_is_no_key_at_all() -> None:
    assert rewritten({"apiKey": KEY, "api": "openai-completions"}, "") == Rewritten(
        {"providers": {"gw": {"api": "openai-completions"}}},
        (Drop("providers.gw.apiKey", "no token was given for this provider"),),
    )


def test_headers_that_hold_or_fetch_a_credential_are_dropped_wherever_they_are() -> None:
    headers = {"X-Tenant": "blue", "Authorization": "Bearer abc", "x-api-key": "k", "X-From": "!hostname", "X-Id": KEY}
    kept = {"X-Tenant": "blue"}

    found = rewritten(
        {
            "headers": dict(headers),
            "models": [{"id": "m", "headers": dict(headers)}],
            "modelOverrides": {"o": {"headers": dict(headers)}},
        }
    )

    assert found.document["providers"]["gw"] == {
        "headers": kept,
        "models": [{"id": "m", "headers": kept}],
        "modelOverrides": {"o": {"headers": kept}},
    }
    assert [drop.place for drop in found.drops if drop.place.endswith("Authorization")] == [
        "providers.gw.headers.Authorization",
        "providers.gw.models[0].headers.Authorization",
        "providers.gw.modelOverrides.o.headers.Authorization",
    ]


def test_a_header_that_names_a_variable_stays() -> None:
    headers = {"Authorization": "Bearer ${TENANT_TOKEN}", "x-api-key": "$OTHER"}

    assert rewritten({"headers": headers}) == Rewritten({"providers": {"gw": {"headers": headers}}}, ())


ODD_HEADERS = {
    "X-AccessToken": "abc",
    "XApiKey": "abc",
    "X-Pass": "abc",
    "X-My-Pat": "abc",
    "Ocp-Apim-Subscription-Key": "abc",
    "PRIVATE_TOKEN": "abc",
    "X-Login": "abc",
    "X-Note": "key=sk-abcdefgh1234",
    "X-Digest": "Digest username=me",
    "X-Long": "0123456789abcdef0123456789abcdef",
}


@pytest.mark.parametrize("name", ODD_HEADERS)
def test_a_token_under_an_odd_name_is_dropped(name: str) -> None:
    found = rewritten({"headers": {name: ODD_HEADERS[name]}})

    assert found.drops == (Drop(f"providers.gw.headers.{name}", "it looks like a credential"),)


HARMLESS = {
    "X-Max-Skills": "skills/abcdefgh",
    "X-Monkey": "1",
    "HTTP-Referer": "https://x.test",
    "X-Title": "pi passes",
}


@pytest.mark.parametrize("name", HARMLESS)
def test_a_header_like_any_other_stays(name: str) -> None:
    assert rewritten({"headers": {name: HARMLESS[name]}}).drops == ()


def test_a_header_does_not_take_anothers_token_along() -> None:
    """The variable of a gateway's token, named in a header of another host, would travel there."""
    document = {
        "providers": {
            "gw": {"apiKey": KEY, "headers": {"X-Account": "me-$GW_TOKEN"}},
            "other": {
                "headers": {"X-Account": "me-$GW_TOKEN", "Authorization": "Bearer ${GW_TOKEN}", "X-Bare": "GW_TOKEN"},
                "models": [{"headers": {"Authorization": "$GW_TOKEN"}}],
                "modelOverrides": {"m": {"headers": {"Authorization": "$GW_TOKEN", "X-Own": "$GW_TOKENS"}}},
            },
        }
    }

    found = rewrite_models(document, {"gw": "$GW_TOKEN", "other": ""}.__getitem__).document["providers"]

    assert found["gw"] == {"apiKey": "$GW_TOKEN", "headers": {"X-Account": "me-$GW_TOKEN"}}
    assert found["other"] == {
        "headers": {},
        "models": [{"headers": {}}],
        "modelOverrides": {"m": {"headers": {"X-Own": "$GW_TOKENS"}}},
    }


@pytest.mark.parametrize("field", ["apiKey", "api_key", "APIKey", "braveApiKey", "clientSecret", "authToken", "token"])
def test_a_key_where_pi_reads_none_is_dropped(field: str) -> None:
    document = {"providers": {"gw": {"compat": {field: "abc"}, "models": [{"id": "m", field: "!cat"}]}}, field: ["abc"]}

    found = rewrite_models(document, lambda _name: "")

    assert found.document == {"providers": {"gw": {"compat": {}, "models": [{"id": "m"}]}}}
    assert {drop.why for drop in found.drops} == {"it looks like a credential"}


def test_a_preference_that_speaks_of_tokens_stays() -> None:
    model = {"id": "m", "maxTokens": 8, "token": 3, "compat": {"maxTokensField": "max_tokens", "tokenizer": "x"}}

    assert rewritten({"models": [model]}) == Rewritten({"providers": {"gw": {"models": [model]}}}, ())


def test_a_provider_of_which_only_a_key_was_there_is_dropped_with_it() -> None:
    """pi takes no provider without anything, and the older one then takes nothing of the file."""
    found = rewrite_models({"providers": {"gw": {"apiKey": KEY}, "own": {}}}, lambda _name: "")

    assert found.document == {"providers": {"own": {}}}


def test_settings_hold_no_key_of_the_other_file_and_none_of_their_own() -> None:
    settings = {"note": f"it is {KEY}", "brave": {"apiKey": "abc"}, "mirror": "https://me:pw@x.test/", "theme": "dark"}

    found = rewrite_settings(settings, (KEY,))

    assert found == Rewritten(
        {"brave": {}, "theme": "dark"},
        (
            Drop("note", "it holds one of the keys of pi"),
            Drop("brave.apiKey", "it looks like a credential"),
            Drop("mirror", "a credential in a URL"),
        ),
    )


def test_a_url_that_is_only_a_credential_is_dropped_whole() -> None:
    """pi takes no empty one."""
    found = rewritten({"baseUrl": "https://me:p/w@llm.test", "api": "x"})

    assert found.document == {"providers": {"gw": {"api": "x"}}}


@pytest.mark.parametrize("depth", [101, 500, 990, 5000, 100_000])
def test_what_is_nested_too_deeply_is_an_error_like_any_other(depth: int) -> None:
    with pytest.raises(UsageError, match=r"m:1:1: this is (nested too deeply|no JSON)"):
        parse_pi_json(b'{"a":' * depth + b"1" + b"}" * depth, "m", comments=True)


def test_what_is_unknown_stays_as_it_is() -> None:
    provider = {
        "name": "Gateway",
        "baseUrl": "http://localhost:11434/v1",
        "compat": {"thinkingFormat": "x"},
        "fromTheFuture": [1, None, {"deep": 1.5}],
        "models": [{"id": "m", "contextWindow": 8192, "cost": {"input": 0}}],
    }

    assert rewritten(provider) == Rewritten({"providers": {"gw": provider}}, ())


def test_a_copy_of_a_key_is_found_elsewhere() -> None:
    found = rewritten({"apiKey": KEY, "note": f"the key is {KEY}", "models": [{"id": "m", "x": [KEY]}]})

    assert found == Rewritten(
        {"providers": {"gw": {"apiKey": "$AI_API_TOKEN", "models": [{"id": "m", "x": []}]}}},
        (
            Drop("providers.gw.note", "it holds one of the keys of pi"),
            Drop("providers.gw.models[0].x[0]", "it holds one of the keys of pi"),
        ),
    )


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://me:pw@llm.test/v1", "https://llm.test/v1"),
        ("https://llm.test/v1?api_key=abc&version=2", "https://llm.test/v1?version=2"),
        ("https://llm.test/v1?version=2", "https://llm.test/v1?version=2"),
        ("http://[::1]:8080/v1", "http://[::1]:8080/v1"),
        ("https://llm.test/v1#token=abc", "https://llm.test/v1"),
        ("https://llm.test/sk-abcdefgh1234/v1", "https://llm.test/v1"),
        ("https://llm.test/v1?a=b;api_key=abc&c=d", "https://llm.test/v1?c=d"),
        ("https://me:p/w@llm.test/v1", ""),
        ("https://me:pw@[/v1", ""),
        ("https://llm.test?", "https://llm.test?"),
    ],
)
def test_a_url_keeps_all_but_credentials(url: str, kept: str) -> None:
    assert without_credentials(url) == kept


def test_providers_come_with_the_places_that_they_speak_to() -> None:
    document = {
        "providers": {
            "local": {"baseUrl": "http://localhost:1/v1"},
            "gw": {"baseUrl": "https://LLM.test:8443/v1", "apiKey": "a", "models": [{"baseUrl": "https://b.test"}]},
            "anthropic": {"apiKey": "b"},
            "openai": {"apiKey": "c", "models": [{"id": "m", "baseUrl": "https://a.test/v1"}]},
            "odd": {"apiKey": "c"},
        }
    }

    assert providers_of(document, {"anthropic": "api.anthropic.com", "openai": "api.openai.com"}) == (
        Provider("local", (("localhost", 1),), wants_key=False),
        Provider("gw", (("llm.test", 8443), ("b.test", 443)), wants_key=True),
        Provider("anthropic", (("api.anthropic.com", 443),), wants_key=True, headers=("X-Api-Key", "Authorization")),
        Provider("openai", (("a.test", 443), ("api.openai.com", 443)), wants_key=True),
        Provider("odd", (), wants_key=True),
    )


@pytest.mark.parametrize("url", ["llm.test/v1", "ftp://a.test", "https://", "https://a.test:99999", "$URL"])
def test_a_url_that_names_no_host_is_a_place_that_nothing_allows(url: str) -> None:
    assert providers_of({"providers": {"gw": {"baseUrl": url}}}, {})[0].places == ((url, 0),)


def allowed(place: tuple[str, int]) -> bool:
    return place in {("a.test", 443), ("b.test", 443)}


def provider(name: str, *hosts: str) -> Provider:
    """One that wants a key."""
    return Provider(name, tuple((host, 443) for host in hosts), wants_key=True)


def test_one_token_goes_to_one_host() -> None:
    one, same, closed = provider("one", "a.test"), provider("same", "a.test"), provider("closed", "c.test")

    assert assign((one, same, closed), allowed, "T", {}) == Tokens({"one": "T", "same": "T"})


def test_two_hosts_get_none_until_somebody_says_whose_the_token_is() -> None:
    one, two = provider("one", "a.test"), provider("two", "b.test")

    assert assign((one, two), allowed, "T", {}) == Tokens({}, (one, two))
    assert assign((one, two), allowed, "", {"two": "B"}) == Tokens({"two": "B"})
    assert assign((one, two), allowed, "T", {"two": "B"}) == Tokens({"two": "B", "one": "T"})
    assert assign((one, two), allowed, "", {"two": "B", "one": "A"}) == Tokens({"one": "A", "two": "B"})
    assert assign((one, two), allowed, "", {}) == Tokens({})


def test_a_provider_with_one_host_that_is_closed_gets_none() -> None:
    assert assign((provider("one", "a.test", "c.test"), provider("none")), allowed, "T", {}) == Tokens({})


def test_a_provider_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(UsageError) as caught:
        assign((provider("one", "a.test"),), allowed, "T", {"own": "A"})

    assert caught.value.hint == "they are: one"


def test_each_pi_has_its_own_spelling_of_a_variable() -> None:
    packages = ("@earendil-works/pi-coding-agent", "@mariozechner/pi-coding-agent")

    assert [reference(package, "T") for package in packages] == ["$T", "T"]


def test_settings_keep_preferences_and_lose_the_hosts_paths() -> None:
    settings = {
        "defaultProvider": "gw",
        "theme": "dark",
        "enabledModels": ["anthropic/*"],
        "thinkingBudgets": {"low": 1024},
        "extensions": ["~/ext.ts", "builtin:mcp", "-builtin:codemode"],
        "packages": ["npm:@x/y"],
        "sessionDir": "sessions",
        "shellPath": "/opt/fish",
        "shellCommandPrefix": "source ~/.aliases",
        "terminal": {"imageWidthCells": 60, "font": "/usr/share/f"},
        "npmCommand": ["mise", "exec"],
        "httpProxy": "http://proxy.test:3128",
        "fromTheFuture": {"ratio": "16/9", "url": "https://x.test/y"},
    }

    found = rewrite_settings(settings)

    assert found.document == {
        "defaultProvider": "gw",
        "theme": "dark",
        "enabledModels": ["anthropic/*"],
        "thinkingBudgets": {"low": 1024},
        "extensions": ["builtin:mcp", "-builtin:codemode"],
        "terminal": {"imageWidthCells": 60},
        "fromTheFuture": {"ratio": "16/9", "url": "https://x.test/y"},
    }
    assert sorted({drop.place for drop in found.drops}) == [
        "extensions",
        "httpProxy",
        "npmCommand",
        "packages",
        "sessionDir",
        "shellCommandPrefix",
        "shellPath",
        "terminal.font",
    ]


def test_a_shell_that_every_image_has_stays() -> None:
    assert rewrite_settings({"shellPath": "/bin/bash"}) == Rewritten({"shellPath": "/bin/bash"}, ())


def test_models_may_have_comments_and_trailing_commas_and_settings_not() -> None:
    text = b'\xef\xbb\xbf{ // the gateway\n "providers": {"a": {"baseUrl": "https://x.test//y,}",},}, }'

    assert parse_pi_json(text, "models.json", comments=True) == {"providers": {"a": {"baseUrl": "https://x.test//y,}"}}}
    with pytest.raises(UsageError, match=r"settings.json:1:\d+: "):
        parse_pi_json(b"{ // no\n}", "settings.json", comments=False)


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b'{"a": 1,\n "b" 2}', "m:2:6"),
        (b'{ // one\n // two\n "a": tru}', "m:3:7"),
        (b'{"a": NaN}', "m:1:1"),
        (b'{"a": 1e999}', "m:1:1"),
        (b"[]", "m:1:1"),
        (b'\n\n"\xff"', "m:3"),
        (b"[" * 100_000, "m:1:1"),
        (b'{"a":' * 200 + b"1" + b"}" * 200, "m:1:1"),
        (b"", "m:1:1"),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(data: bytes, place: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_pi_json(data, "m", comments=True)

    assert caught.value.message.startswith(f"{place}: ")


def test_no_file_takes_for_ever() -> None:
    """Quotes without end, and long texts of letters: read or refused, and done with."""
    with pytest.raises(UsageError, match=r"m:1:\d+: "):
        parse_pi_json(b'{"a": "' + b'\\"' * 400_000, "m", comments=True)
    long = {"compat": {"blob": "a" * 2_000_000, "note": "sk" * 1_000_000, "url": "://:" * 500_000}}

    assert rewritten({"headers": {"X-Blob": "sk " * 700_000}} | long).drops == ()


def test_what_is_written_is_ascii() -> None:
    assert pi_json({"a": "ä\ud800"}) == '{\n  "a": "\\u00e4\\ud800"\n}\n'
