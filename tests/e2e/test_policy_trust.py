"""A project's own files: they count once somebody has seen them, and nothing inside can change them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.e2e.legs import arrived, needs_sinks, requested
from tests.e2e.sandbox import Case, outside, run_cases
from tests.e2e.test_sandbox_entrypoint import RUNTIME, SETTINGS

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

pytestmark = needs_sinks

# A status for each page.
GET = 'curl -s -o /dev/null -o /dev/null -w "%{http_code} " --max-time 5'
# What a project asks for, and somebody at a terminal who says yes.
ASKS = "mkdir -p .ai-sandbox && printf 'exact:allowed.test  # the mirror\\n' >.ai-sandbox/allow"
SAYS_YES = 'python3 -c "$ANSWER" y'
TRUSTED = f"{ASKS} && {SAYS_YES} aisb trust"
ANSWER = {"ANSWER": outside("answer")}
HASH = "$(aisb trust --show 2>&1 | grep -oE '[0-9a-f]{64}' | head -1)"


def test_a_projects_list_counts_once_it_was_seen(lab: Lab) -> None:
    """Its entry is reached and its neighbour is not; before that, and after a change, nothing runs: 78. (A59)"""
    both = f"{GET} https://allowed.test/file https://x.allowed.test/file; true"
    direct = lab.run(f'export CURL_CA_BUNDLE="$LAB_CA"; {both}')
    assert (direct.text, len(arrived(lab))) == ("200 200 ", 1)

    result = lab.run(
        f"{ASKS}; aisb -- touch unseen; echo $?; "
        f"{TRUSTED}; aisb -- sh -c '{both}'; echo $?; "
        "echo exact:evil.test >>.ai-sandbox/allow; aisb -- touch changed; echo $?; "
        "rm .ai-sandbox/allow; aisb --allow allowed.test -- touch gone; echo $?; ls",
        env=ANSWER,
        timeout=200,
    )

    assert result.text == "78\n200 000 0\n78\n78\n"
    assert requested(lab) == ["allowed.test GET https://allowed.test/file"]
    assert "aisb trust --project " in result.errors
    assert "aisb: denied x.allowed.test:443" in result.errors


def test_the_agent_does_not_widen_its_next_run(lab: Lab) -> None:
    """What it writes where there was nothing is new to the next run, which asks or refuses; so is a checkout. (A59)"""
    fetch = f"{GET} https://evil.test/stolen"
    result = lab.run(
        "git init -q . && git config user.name x && git config user.email x@x.test && "
        "git commit -q --allow-empty -m one && git switch -qc other && mkdir .ai-sandbox && "
        "echo evil.test >.ai-sandbox/allow && git add -A && git commit -qm two && git switch -q - && "
        "aisb --allow allowed.test -- sh -c 'mkdir .ai-sandbox && echo evil.test >.ai-sandbox/allow'; echo $?; "
        f"aisb --allow allowed.test -- {fetch}; echo $?; rm -r .ai-sandbox; "
        "aisb --allow allowed.test -- git switch -q other; echo $?; "
        f"aisb --allow allowed.test -- {fetch}; echo $?; ls -A; "
        f'git switch -q -; {fetch} --cacert "$LAB_CA"',
        timeout=200,
    )

    assert result.text == "0\n78\n0\n78\n.ai-sandbox\n.git\n200 ", result.errors
    # The last one is from outside: it can be reached.
    assert requested(lab) == ["evil.test GET https://evil.test/stolen"]


ATTEMPTS = {
    "add a line": "echo evil.test >>.ai-sandbox/allow",
    "write another": "echo evil.test >.ai-sandbox/policy.yaml",
    "remove it": "rm -f .ai-sandbox/allow",
    "rename it": "mv .ai-sandbox/allow .ai-sandbox/old",
    "put another in its place": "echo evil.test >made && mv made .ai-sandbox/allow",
    "change its mode": "chmod 666 .ai-sandbox/allow",
    "change its times": "touch .ai-sandbox/allow",
    "cut it short": "truncate -s 0 .ai-sandbox/allow",
    "link to it": "ln .ai-sandbox/allow hard",
    "rename the directory": "mv .ai-sandbox old",
    "remove the directory": "rm -rf .ai-sandbox",
    "a link in its place": "ln -sfnT /tmp .ai-sandbox",
    "exchange it": (
        "mkdir other && python3 -c 'import ctypes; c = ctypes.CDLL(None, use_errno=True); "
        'exit(bool(c.renameat2(-100, b"other", -100, b".ai-sandbox", 2)))\''
    ),
    "mount over it": "mount -t tmpfs none .ai-sandbox",
    "unmount it": "umount .ai-sandbox",
    "through another way": "echo evil.test >>/proc/self/cwd/.ai-sandbox/allow",
}


def test_nothing_inside_changes_what_the_project_may_ask_for(lab: Lab) -> None:
    """No write, no rename of it or of its directory, no mount; everything beside it is the agent's, as ever."""
    attempts = "\n".join(
        f"if ({attempt}) >/dev/null 2>&1; then echo 'did {name}'; fi" for name, attempt in ATTEMPTS.items()
    )
    beside = (
        "echo x >beside && mkdir -p a/.ai-sandbox && echo x >a/.ai-sandbox/allow && mv a b && cat .ai-sandbox/allow"
    )
    before = f"{TRUSTED}; ls -lR --time-style=full-iso .ai-sandbox >before"
    after = "ls -lR --time-style=full-iso .ai-sandbox | diff - before && ls -A && aisb -q -- true && echo still trusted"

    result = lab.run(f"{before}; aisb -q -- sh; {after}", stdin=f"{attempts}\n{beside}\n".encode(), env=ANSWER)

    assert result.text.splitlines() == [
        "exact:allowed.test  # the mirror", ".ai-sandbox", "b", "before", "beside", "made", "other", "still trusted",
    ], result.errors  # fmt: skip
    # As a check of the check: outside, each of them that needs no root does its work.
    outside_of_it = lab.run(
        f"{ASKS}; sh; true",
        stdin="\n".join(f"({a}) >/dev/null 2>&1 && echo did; {ASKS}" for a in list(ATTEMPTS.values())[:11]).encode(),
    )
    assert outside_of_it.text.count("did") == 11


def test_a_script_says_which_content_it_has_seen(lab: Lab) -> None:
    """Without a terminal: --trust-once with that very hash runs, for this once, and with any other one does not."""
    result = lab.run(
        f"{ASKS}; seen={HASH}; "
        f"aisb -q --trust-once $seen -- {GET} https://allowed.test/once; echo $?; "
        "aisb -q -- true; echo $?; "
        f"aisb -q --trust-once {64 * '0'} -- touch wrong; echo $?; "
        "echo evil.test >>.ai-sandbox/allow; aisb -q --trust-once $seen -- touch changed; echo $?; ls"
    )

    assert result.text == "200 0\n78\n78\n78\n", result.errors
    assert requested(lab) == ["allowed.test GET https://allowed.test/once"]


SWAP = """
import os
for mount in config['mounts']:
    if mount['destination'] == '/project/.ai-sandbox':
        os.rename(mount['source'], mount['source'] + '.old')
        %s
"""
SWAPPED = {
    # Seen from inside that is a mount at the link's end, which nobody asked for either.
    "a link": "os.symlink('/var/lib/dpkg', mount['source'])",
    "another directory": "os.mkdir(mount['source'])",
}


def test_a_directory_that_takes_its_place_meanwhile_is_found_out(lab: Lab) -> None:
    """Between aisb's look and podman's mount: 77 before the command's first instruction."""
    run = (
        "sh",
        "-c",
        'sed -i "s|HOME|$HOME|" ~/.config/containers/*.conf; mkdir -p .ai-sandbox && echo allowed.test >.ai-sandbox/allow; '
        f"aisb -q --trust-once {HASH} -- touch /project/ran; code=$?; "
        "[ -d .ai-sandbox.old ] && { rm -rf .ai-sandbox; mv .ai-sandbox.old .ai-sandbox; }; rm -r .ai-sandbox; exit $code",
    )
    cases = {
        name: Case(run, {"rt/runtime": outside("runtime"), "rt/change": SWAP % swap, SETTINGS: RUNTIME})
        for name, swap in SWAPPED.items()
    }
    same = Case(run, {"rt/runtime": outside("runtime"), "rt/change": "", SETTINGS: RUNTIME})

    unchanged, *changed = run_cases(lab, [same, *cases.values()])

    assert (unchanged.code, unchanged.new) == (0, ["ran"]), unchanged.stderr
    assert {name: (ended.code, ended.refusal, ended.new) for name, ended in zip(cases, changed, strict=True)} == {
        "a link": (77, "something is mounted at /var/lib/dpkg that aisb did not ask for", []),
        "another directory": (77, "/project/.ai-sandbox was replaced while the sandbox started", []),
    }


def test_a_run_does_not_start_beside_one_that_could_replace_it(lab: Lab) -> None:
    """One that began before there was a `.ai-sandbox`, or in a directory around this one, may swap it: 77 until it ends."""
    waits = "sh -c 'touch here; while [ ! -e go ]; do sleep 0.05; done'"
    until = "while [ ! -e here ]; do sleep 0.05; done"

    def beside(place: str) -> str:
        return (
            f"aisb -q --allow allowed.test -- {waits} & {until}; mkdir -p {place} && cd {place} && {TRUSTED}; "
            'aisb -q -- touch ran; echo $?; cd "$OLDPWD"; touch go; wait; '
            f"cd {place} && aisb -q -- touch ran; echo $?; ls"
        )

    same = lab.run(beside("."), env=ANSWER)
    inner = lab.run(beside("inner"), env=ANSWER)

    assert (same.text, inner.text) == ("77\n0\ngo\nhere\nran\n", "77\n0\nran\n"), same.errors + inner.errors
    why = r"the agent of run [0-9a-f]{8} can replace /\S+/\.ai-sandbox, which was not there or not protected"
    assert re.search(why, same.errors)
    assert re.search(why, inner.errors)


def test_a_file_named_by_a_flag_needs_trust_where_the_agent_could_write_it(lab: Lab) -> None:
    """--policy in the project: 78 until it is trusted; a link of the project to somewhere else: 78 whatever is trusted."""
    result = lab.run(
        "echo 'allow: [allowed.test]' >rules.yaml; echo 'allow: [allowed.test]' >~/own.yaml; ln -s ~/own.yaml link.yaml; "
        "aisb -q --policy rules.yaml -- touch no; echo $?; "
        "" + SAYS_YES + " aisb trust rules.yaml; "
        f"aisb -q --policy rules.yaml -- {GET} https://allowed.test/one; echo $?; "
        f"aisb -q --policy ~/own.yaml -- {GET} https://allowed.test/two; echo $?; "
        "aisb -q --policy link.yaml -- touch no; echo $?; "
        "aisb -q --policy rules.yaml -- sh -c 'echo \"  - evil.test\" >>rules.yaml'; "
        "aisb -q --policy rules.yaml -- touch no; echo $?; ls",
        env=ANSWER,
    )

    assert result.text == "78\n200 0\n200 0\n78\n78\nlink.yaml\nrules.yaml\n", result.errors
    assert requested(lab) == [f"allowed.test GET https://allowed.test/{name}" for name in ("one", "two")]
