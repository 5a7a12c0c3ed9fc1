"""
JSON Schemas of the files that people write, for editors, from the tables that the parsers use; and of answers.

The parsers take every value as the text that stands there. An editor's YAML makes numbers and truth values of some of
them, so a schema takes these too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from aisb.domain.answers import VERSION as ANSWERS_VERSION
from aisb.domain.attempts import KINDS, VERDICTS
from aisb.domain.doctor import LEVELS
from aisb.domain.harnesses import HARNESSES
from aisb.domain.http_rules import ACTIONS, ANY_METHOD, LONGEST_EXPRESSION, METHODS
from aisb.domain.images import NODE_VERSIONS
from aisb.domain.layers import NET_WIDTH, PROJECT_LISTS, PROJECT_SCALARS
from aisb.domain.limits import PROJECT_CAPS
from aisb.domain.net import ALLOW, FULL, NONE, PINNED
from aisb.domain.options import CONFIGURABLE, FLAG, LIST
from aisb.domain.policy_file import HOST_KEYS, RULE_KEYS, TOP_KEYS, VERSION
from aisb.domain.run_record import ENDS
from aisb.domain.run_record import VERSION as RUN_VERSION
from aisb.domain.updates import CURRENT, NEWER, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from aisb.domain.options import Option

Schema = dict[str, Any]

# What editors know best; nothing here needs a later one.
_DRAFT = "http://json-schema.org/draft-07/schema#"
_TEXT: Schema = {"type": ["string", "number", "boolean"], "minLength": 1}
_WORD: Schema = {"type": "string", "minLength": 1}
# In whatever case, and without an inline flag, which editors' expressions have not.
_ON_OR_OFF = "^([01]|[Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee]|[Yy][Ee][Ss]|[Nn][Oo])$"
_SWITCH: Schema = {"anyOf": [{"type": "boolean"}, {"enum": [0, 1]}, {"type": "string", "pattern": _ON_OR_OFF}]}
# Values of which there are few. An open network is asked for each time, and stands in no file.
_FEW = {
    "net": tuple(mode for mode in NET_WIDTH if mode != FULL),
    "harness": tuple(HARNESSES),
    "node": tuple(NODE_VERSIONS),
    "node-source": ("tarball", "npm"),
    "pull": ("missing", "never"),
}


def config_schema() -> Schema:
    """Of ~/.config/ai-sandbox/config.yaml."""
    return _file("ai-sandbox: config.yaml of a user", _options(CONFIGURABLE))


def project_schema() -> Schema:
    """Of a project's .ai-sandbox/config.yaml, which may say less."""
    allowed = PROJECT_SCALARS | PROJECT_LISTS | frozenset(PROJECT_CAPS)
    return _file(
        "ai-sandbox: .ai-sandbox/config.yaml of a project", _options(key for key in CONFIGURABLE if key in allowed)
    )


def policy_schema() -> Schema:
    """Of the files that --policy names, and of .ai-sandbox/policy.yaml."""
    fields: Schema = {
        "version": {"enum": [int(VERSION), VERSION], "description": "the version of this form"},
        "allow": {"type": "array", "items": _WORD, "description": "entries, as --allow takes them"},
        "host": {**_WORD, "description": "one exact name, without a port"},
        "action": {"enum": list(ACTIONS)},
        "method": {"enum": [ANY_METHOD, *METHODS]},
        "path": {
            **_WORD,
            "maxLength": LONGEST_EXPRESSION,
            "pattern": "^[ -~]+$",
            "description": "a regular expression for the whole path, without the query",
        },
    }
    rule = _object({key: fields[key] for key in RULE_KEYS}, RULE_KEYS)
    fields["policies"] = {"type": "array", "items": rule, "description": "the last one that matches counts"}
    host = _object({key: fields[key] for key in HOST_KEYS}, HOST_KEYS)
    fields["networkPolicies"] = {"type": "array", "items": host, "description": "hosts that rules alone decide over"}
    return _file("ai-sandbox: a policy", {key: fields[key] for key in TOP_KEYS})


def answers_schema() -> Schema:
    """Of what verbs print under --json (`logs` by itself prints lines of the record, which are documented there)."""
    text, number, yes_or_no = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
    decision: Schema = {"enum": ["allow", "deny"]}
    texts: Schema = {"type": "object", "additionalProperties": text}
    item = _record(entry=text, reason=text)
    found = _record(state={"enum": [CURRENT, NEWER, UNKNOWN]}, now=text, newest=text, reason=text)
    gate = {
        **dict.fromkeys(("name", "container", "directory", "state", "fault"), text),
        "runs": _list(text),
        "allows": number,
        "seconds": number,
    }
    # null: it could not be told, or there is none.
    run = _record(
        **dict.fromkeys(("run", "project", "started", "command", "net", "reason"), text),
        **{key: {"type": ["integer", "null"]} for key in ("exit", "allows", "seconds", "memory", "denials")},
        state={"enum": ["running", "ended"]},
        by={"enum": [*ENDS, None]},
        publish=_list(text),
        **{key: {"type": ["string", "null"]} for key in ("ended", "gate")},
        gateListens={"type": ["boolean", "null"]},
        isRecordFull=yes_or_no,
    )
    images = _record(sandbox=text, gate=text)
    answers = {
        "build": images,
        "build --why": _record(reasons=_list(text)),
        "clean": _record(
            freed=number, removals=_list(_record(kind=text, name=text, about=text, size=number, stays=text))
        ),
        "doctor": _record(
            verdict={"enum": list(LEVELS)},
            checks=_list(_record(check=text, level={"enum": list(LEVELS)}, evidence=text, fix=text)),
            attempts=_list(
                _record(
                    attempt=text, kind={"enum": list(KINDS)}, verdict={"enum": list(VERDICTS)},
                    seconds={"type": "number"}, evidence=text, means=text,
                )
            ),
        ),
        "gate logs": _record(gate=text, lines=_list(text)),
        "gate up": _record(gate=text, started=yes_or_no),
        "init": _record(file=text, entries=_list(text), proposed=number, read=_list(text)),
        "gate status": _record(gates=_list(_record(**gate))),
        "inspect RUN": _record(
            **dict.fromkeys(("run", "project", "started", "command", "container"), text),
            **dict.fromkeys(("image", "state", "net", "cwd"), text),
            pid=number,
            gate={"type": ["string", "null"]},
            policy={"type": ["object", "null"]},
            publish=_list(text),
            mounts=_list(_record(source=text, target=text, readOnly=yes_or_no)),
            limits=_record(memory=number, nanoCpus=number, pids=number),
        ),
        "inspect RUN that has ended": run,
        "inspect IMAGE": _record(image={"type": "object"}),
        "inspect": _record(record={"type": "object"}, sandbox={"type": "object"}, gate={"type": "object"}),
        "logs --summary": _record(
            run=text,
            destinations=_list(_record(count=number, decision=decision, destination=text, reason=text, allow=text)),
        ),
        "policy check": _record(
            decision=decision, host=text, port=number, method=text, path=text, reason=text, why=text, rule=text,
            origins=_list(text), add=text, bumped=yes_or_no, injected=yes_or_no,
        ),
        "policy presets": _record(presets={"type": "object", "additionalProperties": _list(item)}),
        "policy show": _record(policy=texts),
        "ps": _record(runs=_list(run)),
        "trust --show": _record(
            project=text,
            trusted=yes_or_no,
            hash=text,
            differs=_list(_record(file=text, **{"is": {"enum": ["new", "gone", "changed"]}})),
        ),
        "update": _record(
            **dict.fromkeys(("generation", "was", "base", "digest"), text),
            images=images,
            changed=_record(**{role: {"type": ["array", "null"], "items": text} for role in ("sandbox", "gate")}),
        ),
        "update --check": _record(found={"type": "object", "additionalProperties": found}),
        "version": _record(aisb=text),
    }  # fmt: skip
    versioned = {verb: _versioned(schema) for verb, schema in answers.items()}
    references = [{"$ref": f"#/definitions/{quote(verb)}"} for verb in versioned]
    return {"$schema": _DRAFT, "title": "ai-sandbox: answers", "anyOf": references, "definitions": versioned}


def run_schema() -> Schema:
    """Of `run.json` in the record of a run."""
    text, maybe = {"type": "string"}, {"type": ["string", "null"]}
    whose = {"enum": list(ENDS), "description": "whose the exit code is; unknown: aisb or the machine went down"}
    made = _record(
        version={"const": RUN_VERSION},
        run={**text, "pattern": "^[0-9a-f]{8}$"},
        project={**text, "description": "the directory; empty without one"},
        command={**text, "description": "its first word: the others may hold secrets"},
        image={**text, "description": "the sandbox's, by its tag"},
        net={"enum": [ALLOW, PINNED, NONE, FULL]},
        gate={**maybe, "description": "how its name begins; runs of one policy share it"},
        allows={"type": "integer", "description": "how many entries its policy has"},
        publish={**_list(text), "description": "its ports on this machine, as HOST:PORT"},
        owner={**text, "description": "aisb's process: its number, its start, the boot"},
        started={**text, "description": "in UTC"},
        ended={**maybe, "description": "null while it runs, and where nobody was left to say it"},
        exit={"type": ["integer", "null"], "description": "aisb's exit code"},
        by=whose,
        reason={**text, "description": "in words"},
    )
    return {"$schema": _DRAFT, "title": "ai-sandbox: run.json of a run's record", **made}


# By the name of the file, without its ending.
SCHEMAS: dict[str, Callable[[], Schema]] = {
    "answers": answers_schema,
    "config": config_schema,
    "policy": policy_schema,
    "project": project_schema,
    "run": run_schema,
}


def _record(**properties: Schema) -> Schema:
    """An object with all of these, and with what a later release may add."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def _versioned(schema: Schema) -> Schema:
    properties = {"version": {"const": ANSWERS_VERSION}, **schema["properties"]}
    return {**schema, "properties": properties, "required": list(properties)}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _file(title: str, properties: Schema) -> Schema:
    return {"$schema": _DRAFT, "title": title, **_object(properties)}


def _object(properties: Schema, required: Iterable[str] = ()) -> Schema:
    needs = {"required": list(required)} if required else {}
    return {"type": "object", "properties": properties, **needs, "additionalProperties": False}


def _options(names: Iterable[str]) -> Schema:
    return {name: {"description": CONFIGURABLE[name].help, **_value(CONFIGURABLE[name])} for name in names}


def _value(option: Option) -> Schema:
    if option.kind == LIST:
        return {"type": "array", "items": _TEXT}
    if option.kind == FLAG:
        return _SWITCH
    few = _FEW.get(option.name)
    return {"enum": [form for value in few for form in _forms(value)]} if few else _TEXT


def _forms(value: str) -> list[str | int]:
    """As an editor's YAML may have read it."""
    return [int(value), value] if value.isdigit() else [value]
