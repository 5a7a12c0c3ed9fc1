"""The command line: where aisb's part ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisb.cli.hints import hints_for, refuse_a_near_miss, strange_variables
from aisb.cli.main import VERBS as ALL_VERBS
from aisb.cli.splitter import Split, split
from aisb.domain.options import BY_FLAG, FLAG
from aisb.errors import UsageError

VERBS = frozenset({"run", "build", "version"})


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param([], Split("run", (), None, ()), id="nothing runs the agent"),
        pytest.param(["build", "--x"], Split("build", (), None, (), ("--x",)), id="a verb takes all that follows"),
        pytest.param(
            ["run", "build"], Split("run", (), None, ("build",), said_run=True), id="no verb is looked for after run"
        ),
        pytest.param(
            ["--allow", "a.test", "--allow=b.test", "-q", "--", "npm", "--", "--allow", "c.test"],
            Split(
                "run",
                (("allow", "a.test"), ("allow", "b.test"), ("quiet", "")),
                ("npm", "--", "--allow", "c.test"),
                (),
            ),
            id="a command is everything after the first --",
        ),
        pytest.param(
            ["--allow", "a.test", "pi", "--allow", "evil.test", "--", "x"],
            Split("run", (("allow", "a.test"),), None, ("pi", "--allow", "evil.test", "--", "x")),
            id="a flag after the first positional belongs to the agent",
        ),
        pytest.param(
            ["--model", "x", "--allow", "evil.test"],
            Split("run", (), None, ("--model", "x", "--allow", "evil.test")),
            id="an unknown flag ends our part",
        ),
        pytest.param(["--al", "a.test"], Split("run", (), None, ("--al", "a.test")), id="flags are never abbreviated"),
        pytest.param(["-qh"], Split("run", (), None, ("-qh",)), id="flags are never bundled"),
        pytest.param(["--allow=--x"], Split("run", (("allow", "--x"),), None, ()), id="= takes any value"),
        pytest.param(["--allow", "-x"], Split("run", (("allow", "-x"),), None, ()), id="one dash is a value"),
        pytest.param(["", "--allow"], Split("run", (), None, ("", "--allow")), id="an empty word is the agent's"),
    ],
)
def test_a_line_is_taken_apart(words: list[str], expected: Split) -> None:
    assert split(words, VERBS) == expected


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        pytest.param(["--"], "there is no command after --", "write: aisb -- COMMAND ARG...", id="an empty rest"),
        pytest.param(["--allow"], "--allow needs a value", "write: --allow ENTRY", id="no value at the end"),
        pytest.param(["--allow", "--net"], "--allow needs a value", "write: --allow ENTRY", id="a flag is no value"),
        pytest.param(["--project", "--"], "--project needs a value", "write: --project DIR", id="-- is no value"),
        pytest.param(
            ["--project", "--odd"],
            "--project needs a value",
            "write: --project DIR, or --project=--odd",
            id="a path that begins like a flag",
        ),
        pytest.param(["--shell=yes"], "--shell takes no value", "write: --shell", id="a value for a plain flag"),
    ],
)
def test_a_flag_of_ours_that_cannot_be_read_is_an_error(words: list[str], message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        split(words, VERBS)
    assert (caught.value.message, caught.value.hint) == (message, hint)


ours = st.sampled_from([[flag] if option.kind == FLAG else [flag, "value"] for flag, option in sorted(BY_FLAG.items())])
anything = st.text(max_size=12)


@given(st.lists(ours, max_size=5), st.lists(anything, min_size=1, max_size=6))
def test_a_command_arrives_byte_for_byte(flags: list[list[str]], command: list[str]) -> None:
    taken = split([word for words in flags for word in words] + ["--", *command], VERBS)

    assert (taken.command, taken.harness) == (tuple(command), ())


@given(st.lists(ours, max_size=5), st.text(alphabet="abc", min_size=1), st.lists(anything, max_size=6))
def test_nothing_after_the_first_positional_changes_our_flags(
    flags: list[list[str]], positional: str, rest: list[str]
) -> None:
    before = [word for words in flags for word in words]

    taken = split(["run", *before, positional, *rest], VERBS)

    assert taken.harness == (positional, *rest)
    assert taken.flags == split(["run", *before], VERBS).flags


@pytest.mark.parametrize(
    ("words", "hints"),
    [
        pytest.param(["--alow", "x"], ["--alow goes to the agent; aisb's own flag is --allow"], id="close to ours"),
        pytest.param(
            ["fix-it", "--allow", "x"],
            ["--allow comes after the agent's arguments began, so it goes to the agent; aisb's flags come first"],
            id="ours after the end",
        ),
        pytest.param(
            ["sh", "-c", "x"],
            [
                "this goes to the agent as a prompt; to run sh itself: aisb --net none -- sh -c x "
                "(or --allow HOST in the place of --net none)"
            ],
            id="a program's name as a prompt",
        ),
        pytest.param(
            ["--net", "allow", "--allow=a.test", "-q", "--project=--x", "npm", "test", "a b"],
            [
                "this goes to the agent as a prompt; to run npm itself: "
                "aisb --net allow --allow a.test -q --project=--x -- npm test 'a b'"
            ],
            id="with the flags that were given",
        ),
        pytest.param(
            ["--net", "none", "bash"],
            ["this goes to the agent as a prompt; to run bash itself: aisb --net none -- bash"],
            id="a program alone",
        ),
        pytest.param(
            ["-v", "/a:/b", "x"], ["-v goes to the agent; aisb's own flag is --mount"], id="another tool's flag"
        ),
        pytest.param(["-v"], ["-v goes to the agent; aisb's own flag is --version"], id="the same alone"),
        pytest.param(["help"], ["help goes to the agent; aisb's own flag is --help"], id="a word for help"),
        pytest.param(["-V"], ["-V goes to the agent; aisb's own flag is --version"], id="another short form"),
        pytest.param(
            ["biuld"], ["biuld goes to the agent as a prompt; aisb's verb is: aisb build"], id="close to a verb"
        ),
        pytest.param(
            ["--net", "none", "version"],
            ["version comes after a flag, so it goes to the agent; a verb comes first: aisb version"],
            id="a verb after a flag",
        ),
        pytest.param(
            ["--net", "none", "build", "jq", "--quiet"],
            [
                "--quiet comes after the agent's arguments began, so it goes to the agent; aisb's flags come first",
                "build comes after a flag, so it goes to the agent; a verb comes first: aisb build",
            ],
            id="a verb after a flag, with its flags",
        ),
        pytest.param(
            ["--net", "none", "run", "--", "true"],
            ["run comes after a flag, so it goes to the agent; a verb comes first: aisb run"],
            id="run after a flag",
        ),
        pytest.param(
            ["biuld", "--instal", "jq"],
            ["biuld goes to the agent as a prompt; aisb's verb is: aisb build --instal jq"],
            id="close to a verb, with its flags",
        ),
        pytest.param(
            ["biuld", "a", "house"],
            ["biuld goes to the agent as a prompt; aisb's verb is: aisb build a house"],
            id="close to a verb, with more words",
        ),
        pytest.param(["explain", "a", "build"], [], id="a prompt in words"),
        pytest.param(["run", "biuld"], [], id="after run no verb is meant"),
        pytest.param(
            ["--net", "allow", "-q", "npm", "test"],
            [
                "this goes to the agent as a prompt; to run npm itself: aisb -q --net none -- npm test "
                "(or --allow HOST in the place of --net none)"
            ],
            id="a line that would be refused as it is",
        ),
        pytest.param(
            ["run", "build", "--quiet"],
            [
                "--quiet comes after the agent's arguments began, so it goes to the agent; aisb's flags come first",
                "build comes after run, so it goes to the agent; aisb's verb is: aisb build",
            ],
            id="a verb after run",
        ),
        pytest.param(
            ["--net", "none", "status"],
            ["status goes to the agent as a prompt; what runs is listed by: aisb ps; the gates by: aisb gate status"],
            id="a verb of other tools",
        ),
        pytest.param(
            ["statsu"],
            ["statsu goes to the agent as a prompt; what runs is listed by: aisb ps; the gates by: aisb gate status"],
            id="close to a verb of other tools",
        ),
        pytest.param(
            ["help", "nope"],
            ["help goes to the agent as a prompt; aisb has no verb nope: aisb --help"],
            id="help of no verb",
        ),
        pytest.param(["help", "me", "out"], [], id="a prompt that asks for help"),
        pytest.param(["run", "help", "nope"], [], id="after run help of no verb is the agent's"),
        pytest.param(["run", "status"], [], id="after run status is the agent's"),
        pytest.param(["logs", "are", "too", "long"], [], id="a prompt that begins with one"),
        pytest.param(["run", "help"], [], id="after run help is the agent's"),
        pytest.param(["mend the tests"], [], id="a prompt"),
        pytest.param(["--", "sh"], [], id="a command"),
    ],
)
def test_hints(words: list[str], hints: list[str]) -> None:
    taken = split(words, VERBS)

    assert hints_for(taken, VERBS, (taken.values("net") or ("allow",))[-1]) == hints


@pytest.mark.parametrize(
    ("words", "message", "meant", "handed"),
    [
        (["--readonly"], "aisb has no flag --readonly", "--read-only", "aisb -- pi --readonly -- echo 'a b'"),
        (
            ["--net", "none", "--memroy=1g"],
            "aisb has no flag --memroy=1g",
            "--memory",
            "aisb --net none -- pi --memroy=1g -- echo 'a b'",
        ),
        (["statsu"], "aisb has no verb statsu", "aisb gate status", "aisb -- pi statsu -- echo 'a b'"),
        (["lern"], "aisb has no verb lern", "aisb learn", "aisb -- pi lern -- echo 'a b'"),
        (["--network", "none"], "aisb has no flag --network", "--net", "aisb -- pi --network none -- echo 'a b'"),
        (["--volume=/a:/b"], "aisb has no flag --volume=/a:/b", "--mount", "aisb -- pi --volume=/a:/b -- echo 'a b'"),
        (["-v", "/a:/b"], "aisb has no flag -v", "--mount", "aisb -- pi -v /a:/b -- echo 'a b'"),
        (["-e", "KEY=x"], "aisb has no flag -e", "--env", "aisb -- pi -e KEY=x -- echo 'a b'"),
        (["-q", "run"], "run comes after a flag", "aisb run", "aisb -q -- pi run -- echo 'a b'"),
        (["run", "--readonly"], "aisb has no flag --readonly", "--read-only", "aisb -- pi --readonly -- echo 'a b'"),
    ],
)
def test_a_near_miss_before_a_command_is_refused(words: list[str], message: str, meant: str, handed: str) -> None:
    with pytest.raises(UsageError) as caught:
        refuse_a_near_miss(split([*words, "--", "echo", "a b"], ALL_VERBS), ALL_VERBS, "pi")

    hint = f"did you mean {meant}?\nto hand it to the agent all the same: {handed}"
    assert (caught.value.message, caught.value.hint) == (message, hint)


@pytest.mark.parametrize(
    ("flag", "why"),
    [
        ("-it", "a command has this terminal as it is"),
        ("--name=x", "a run is named by its id: aisb ps"),
        ("--rm", "nothing of a sandbox is left after its run"),
    ],
)
def test_what_other_tools_need_is_to_be_left_out(flag: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        refuse_a_near_miss(split([flag, "--", "sh"], ALL_VERBS), ALL_VERBS, "pi")

    hint = f"leave it out: {why}\nto hand it to the agent all the same: aisb -- pi {flag} -- sh"
    assert (caught.value.message, caught.value.hint) == (f"aisb has no flag {flag}", hint)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["learn", "--ouput", "x"], "did you mean --output?"),
        (["learn", "--alow=x"], "did you mean --allow?"),
        (["learn", "--zzz"], "write: aisb learn FLAG... -- COMMAND ARG..."),
        (["serve", "--readonly"], "did you mean --read-only?"),
        (["serve", "zzz"], "write: aisb serve FLAG..."),
    ],
)
def test_of_a_flag_that_learn_or_serve_has_not_the_nearest_is_named(words: list[str], hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        split(words, ALL_VERBS)
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    "words",
    [
        ["--readonly"],
        ["statsu", "echo"],
        ["--model", "x", "--", "hi"],
        ["--verbose", "--", "hi"],
        ["-e", "./extension.ts", "--", "hi"],
        ["-v", "--", "hi"],
        ["explain", "--", "hi"],
        ["run", "statsu", "--", "hi"],
        ["--read-only", "--", "--readonly", "--", "hi"],
    ],
)
def test_what_may_be_the_agents_is_not_refused(words: list[str]) -> None:
    refuse_a_near_miss(split(words, ALL_VERBS), ALL_VERBS, "pi")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["alow", "x.test"], "aisb allow x.test"),
        (["dney", "x.test"], "aisb deny x.test"),
        (["lgos", "x"], "aisb logs x"),
        (["trsut", "foo"], "aisb trust foo"),
        (["polciy", "check", "x"], "aisb policy check x"),
        (["lern", "--", "npm", "test"], "aisb learn -- npm test"),
        (["rnu", "--shell"], "aisb run --shell"),
        (["logss"], "aisb logs"),
        (["Build"], "aisb build"),
        (["presets"], "aisb policy presets"),
        (["alow", "a b"], "aisb allow 'a b'"),
    ],
)
def test_a_verb_with_a_typing_error_is_pointed_out(words: list[str], meant: str) -> None:
    hints = hints_for(split(words, ALL_VERBS), ALL_VERBS, "allow")

    assert f"{words[0]} goes to the agent as a prompt; aisb's verb is: {meant}" in hints


@pytest.mark.parametrize(
    "words",
    [
        ["fix"],
        ["explain"],
        ["test", "it"],
        ["alow x.test"],
        ["git", "status"],
        ["check"],
        ["run", "alow", "x.test"],
        ["--", "alow", "x.test"],
        ["-q", "alow", "x.test"],
        ["run"],
        [],
    ],
)
def test_no_verb_is_seen_in_an_ordinary_word_or_after_run(words: list[str]) -> None:
    assert not any("aisb's verb is" in hint for hint in hints_for(split(words, ALL_VERBS), ALL_VERBS, "allow"))


def test_a_variable_that_nothing_reads_is_named_with_the_nearest_one() -> None:
    names = [
        "AISB_NTE",
        "AISB_ALLOW",
        "AISB_SOMETHING",
        "AISB_NET",
        "AISB_NODE_MIRROR",
        "AISB_LAB_CACHE",
        "PATH",
        "AISB_X\naisb: all is well",
    ]

    assert strange_variables(names) == [
        "AISB_ALLOW is not read; give the flag: --allow",
        "AISB_NTE is not read; the nearest setting is AISB_NET",
        "AISB_SOMETHING is not read; see: aisb run --help",
        "'AISB_X\\naisb: all is well' is not read; see: aisb run --help",
    ]
