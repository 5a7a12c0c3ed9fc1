"""What verbs print under --json: one object each, with the version of its form, as config/schemas/answers.json has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from aisb import __version__
from aisb.cli.completion import all_verbs
from aisb.domain.answers import VERSION, answer_text
from aisb.domain.attempts import with_attempts
from aisb.domain.clean import VOLUME, Removal
from aisb.domain.doctor import FAIL, Finding
from aisb.domain.doctor import as_json as doctor_json
from aisb.domain.gates import GateSeen
from aisb.domain.images import ImageNames, PinnedBase
from aisb.domain.updates import as_json, compared
from aisb.effects.records import AUDIT
from aisb.effects.run_record import ABOUT
from aisb.render.clean import clean_json
from aisb.render.gates import status_json
from aisb.render.updates import rollback_json, update_json

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "config/schemas/answers.json").read_text())
# These have more than one answer, or one with that flag alone.
FORMS = {
    "build": {"build", "build --why"},
    "inspect": {"inspect", "inspect IMAGE", "inspect RUN", "inspect RUN that has ended"},
    "logs": {"logs --summary"},
    "trust": {"trust --show"},
    "update": {"update", "update --check"},
}
# What these have on stdout is a command's own, or nothing: what they say is for whoever typed them.
SILENT = {"run", "learn", "exec", "serve", "allow", "deny", "stop", "gate down"}


def faults(verb: str, text: str) -> list[str]:
    """What the schema of that verb's answer has against it."""
    own = {**SCHEMA, "anyOf": [{"$ref": f"#/definitions/{verb.replace(' ', '%20')}"}]}
    return [f"{error.json_path}: {error.message}" for error in Draft7Validator(own).iter_errors(json.loads(text))]


def ask(tmp_path: Path, *words: str) -> tuple[int, str]:
    """aisb there, in a project of its own."""
    (tmp_path / "p").mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "aisb", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=tmp_path / "p",
        env={"HOME": str(tmp_path), "PATH": os.defpath, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    return done.returncode, done.stdout


def test_every_verb_that_answers_programs_is_in_the_schema() -> None:
    Draft7Validator.check_schema(SCHEMA)
    asked = {verb.words for verb in all_verbs() if any(flag.name == "json" for flag in verb.flags)}

    assert set().union(*(FORMS.get(verb, {verb}) for verb in asked)) == set(SCHEMA["definitions"])


def test_a_verb_answers_programs_or_nobody() -> None:
    """A verb that is new has --json, or stands among those that answer nothing."""
    silent = {verb.words for verb in all_verbs() if not any(flag.name == "json" for flag in verb.flags)}

    assert silent - {"gate", "policy"} == SILENT


@pytest.mark.parametrize("words", [("version", "--json"), ("--version", "--json")])
def test_the_version_is_an_answer(tmp_path: Path, words: tuple[str, ...]) -> None:
    code, text = ask(tmp_path, *words)

    assert (code, faults("version", text)) == (0, [])
    assert json.loads(text) == {"version": 1, "aisb": __version__}


def test_a_first_list_is_told_to_programs(tmp_path: Path) -> None:
    """On stdout alone, and nothing of it in words besides."""
    (tmp_path / "p").mkdir()
    (tmp_path / "p/package.json").write_text("{}")
    (tmp_path / "p/package-lock.json").write_text("https://n.test/x https://o.test/y")

    code, text = ask(tmp_path, "init", "--json")

    assert (code, faults("init", text)) == (0, [])
    assert json.loads(text) == {
        "version": 1,
        "file": f"{tmp_path}/p/.ai-sandbox/allow",
        "entries": ["@npm"],
        "proposed": 2,
        "read": ["package.json"],
    }


def test_what_was_built_and_renewed_is_of_its_form() -> None:
    base = PinnedBase("x:1", "x@sha256:0", "sha256:0", generation="2026-01-01")
    names = ImageNames("s:1", "g:1")

    assert faults("build", answer_text(names._asdict())) == []
    assert faults("update", answer_text(update_json(base, base, names, (("a 1 -> 2",), ())))) == []
    assert faults("update", answer_text(rollback_json(base, names))) == []
    assert update_json(None, base, names, None) == {
        "generation": "2026-01-01",
        "was": "",
        "base": "x:1",
        "digest": "sha256:0",
        "images": {"sandbox": "s:1", "gate": "g:1"},
        "changed": {"sandbox": None, "gate": None},
    }


def test_every_answer_has_its_version_first() -> None:
    """In ASCII: whatever is in it does nothing to a terminal."""
    text = answer_text({"name": "\x1b[2Jä\udc80"})

    assert text == '{\n  "version": 1,\n  "name": "\\u001b[2J\\u00e4\\udc80"\n}\n'
    assert all(form["properties"]["version"] == {"const": VERSION} for form in SCHEMA["definitions"].values())
    assert all("version" in form["required"] for form in SCHEMA["definitions"].values())


def test_a_target_is_judged_for_programs(tmp_path: Path) -> None:
    code, text = ask(tmp_path, "policy", "check", "--json", "--allow", "a.test", "POST", "https://b.test/x?y")
    found = json.loads(text)

    assert (code, faults("policy check", text)) == (1, [])
    assert found == {
        "version": 1,
        "decision": "deny",
        "host": "b.test",
        "port": 443,
        "method": "POST",
        "path": "/x?y",
        "reason": "not-listed",
        "why": "no entry of the policy covers this host",
        "rule": "",
        "origins": [],
        "add": "b.test",
        "bumped": False,
        "injected": False,
    }


def test_a_policy_is_shown_with_the_keys_that_it_is_printed_with(tmp_path: Path) -> None:
    code, text = ask(tmp_path, "policy", "show", "--json", "--allow", "a.test")
    _, printed = ask(tmp_path, "policy", "show", "--allow", "a.test")

    assert (code, faults("policy show", text)) == (0, [])
    assert [f"{key}={value}" for key, value in json.loads(text)["policy"].items()] == printed.splitlines()


def test_presets_are_listed_with_their_reasons(tmp_path: Path) -> None:
    """Those of an image that is not built are not known, which stands on stderr."""
    code, text = ask(tmp_path, "policy", "presets", "--json")

    assert (code, faults("policy presets", text)) == (0, [])
    assert json.loads(text)["presets"]["openai"] == [
        {"entry": "exact:api.openai.com", "reason": "the models, with an API key"}
    ]
    assert ask(tmp_path, "policy", "presets", "--json", "npm")[0] == 69


def test_trust_says_what_differs(tmp_path: Path) -> None:
    nothing = ask(tmp_path, "trust", "--show", "--json")
    (tmp_path / "p/.ai-sandbox").mkdir()
    (tmp_path / "p/.ai-sandbox/allow").write_text("a.test\n")
    new = ask(tmp_path, "trust", "--show", "--json")

    assert [faults("trust --show", text) for _, text in (nothing, new)] == [[], []]
    assert (nothing[0], json.loads(nothing[1])["trusted"]) == (0, True)
    assert (new[0], json.loads(new[1])["trusted"], json.loads(new[1])["differs"]) == (
        1,
        False,
        [{"file": ".ai-sandbox/allow", "is": "new"}],
    )
    assert ask(tmp_path, "trust", "--json")[0] == 2


def record(tmp_path: Path, *lines: dict[str, Any]) -> None:
    """A run of the project that is over, with these decisions."""
    place = tmp_path / ".local/state/ai-sandbox/runs/0000000a"
    place.mkdir(parents=True)
    about = {"run": "0000000a", "project": str(tmp_path / "p"), "started": "2026-03-01T09:00:00.000Z"}
    (place / ABOUT).write_text(json.dumps(about))
    (place / AUDIT).write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def test_a_run_is_summed_up_for_programs(tmp_path: Path) -> None:
    """Each destination with how often, and the entry that would open it; what the start itself tried is not in it."""
    about = {"time": "2026-03-01T09:00:00.000Z", "run": "0000000a", "port": 443, "method": "CONNECT"}
    denied = {**about, "host": "b.test", "decision": "deny", "reason": "not-listed"}
    probe = {**denied, "host": "192.0.2.1", "reason": "direct-address"}
    before = ask(tmp_path, "logs", "--summary", "--json")
    record(tmp_path, {**about, "host": "a.test", "decision": "allow"}, denied, denied, probe)

    code, text = ask(tmp_path, "logs", "--summary", "--json")

    assert (before[0], json.loads(before[1])) == (0, {"version": 1, "run": "", "destinations": []})
    assert (code, faults("logs --summary", text)) == (0, [])
    assert json.loads(text) == {
        "version": 1,
        "run": "0000000a",
        "destinations": [
            {"count": 2, "decision": "deny", "destination": "b.test:443", "reason": "not-listed", "allow": "b.test"},
            {"count": 1, "decision": "allow", "destination": "a.test:443", "reason": "", "allow": ""},
        ],
    }


def test_the_others_are_of_their_form() -> None:
    gate = GateSeen("a", "c", "/d", "proved", "", ("0000000a",), 2, 3.2)
    removals = [Removal(VOLUME, "aisb-home-x", "home of /x"), Removal(VOLUME, "aisb-home-y", "home of /y")]

    assert faults("clean", answer_text(clean_json(removals, {"aisb-home-x": "in use"}, 5))) == []
    assert clean_json(removals, {"aisb-home-x": "in use"}, 5)["removals"] == [
        {"kind": "volume", "name": "aisb-home-x", "about": "home of /x", "size": 0, "stays": "in use"},
        {"kind": "volume", "name": "aisb-home-y", "about": "home of /y", "size": 0, "stays": ""},
    ]
    assert faults("doctor", answer_text(with_attempts(doctor_json([Finding("x", FAIL, "y", "z")]), []))) == []
    assert faults("gate status", answer_text(status_json([gate]))) == []
    assert faults("update --check", as_json({"base": compared("a", "b")})) == []
    assert faults("update --check", answer_text({"found": {"base": {"state": "new"}}})) != []
