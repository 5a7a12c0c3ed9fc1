"""The keyless agent: a secret reaches its server, and the sandbox has never held it."""

from __future__ import annotations

import json
import re
import secrets
from typing import TYPE_CHECKING

from tests.e2e.sandbox import outside

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

RUN = "aisb -q --allow exact:allowed.test --allow exact:cdn.test --inject TOKEN@allowed.test "


def token() -> str:
    return f"tok_{secrets.token_hex(16)}-accepted"


# All that the command's user can see: every process, every file that is not the kernel's, and its own variables.
INSIDE = """
curl -sS -o /dev/null -H "Authorization: Bearer $TOKEN" https://allowed.test/
curl -sS -o /dev/null -w '%{http_code} ' -H "Authorization: Bearer $TOKEN" https://cdn.test/
curl -sS -o /dev/null -w '%{http_code} ' -H "Authorization: Bearer $TOKEN" http://allowed.test/
curl -sS -o /dev/null -w '%{http_code} ' -H 'Host: allowed.test' -H "Authorization: Bearer $TOKEN" https://cdn.test/
curl -sS -o /dev/null -w '%{http_code}\n' -H "X-Other: a" "https://allowed.test/?$TOKEN"
cat /proc/*/environ /proc/*/cmdline /proc/*/mountinfo 2>/dev/null | grep -a -c -F -f /dev/fd/3 3<<END
$(echo $HALF | rev)
END
grep -r -l -a -F "$(echo $HALF | rev)" / --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr 2>/dev/null
touch /project/up
cat
"""
RUN_AND_SEARCH = """
IFS= read -r TOKEN
echo "$TOKEN" >~/control
since=$(date +%s)
cat >~/search.py
search() { echo "$TOKEN" | podman unshare python3 ~/search.py $since; }
mkfifo hold
HALF=$(echo ${TOKEN%-accepted} | rev)
TOKEN=$TOKEN HALF=$HALF RUN --allow exact:evil.test --env HALF --trace -- sh -c "$INSIDE" <hold >said 2>words &
run=$!
exec 3>hold
until [ -e up ]; do kill -0 $run || { cat words; exit 9; }; sleep 0.02; done
podman inspect $(podman ps -q) >inspected
cat /proc/[0-9]*/cmdline >lines 2>/dev/null
cp -r "$XDG_RUNTIME_DIR/aisb" copy
search
exec 3>&-
wait $run; echo "exit $?"
search
cat said
ls "$XDG_RUNTIME_DIR"/aisb/g/*/owner 2>/dev/null
"""


def test_a_secret_reaches_its_server_and_the_sandbox_never_held_it(lab: Lab) -> None:
    """Neither does a second host with TLS that is opened get anything, nor plain HTTP; and no file, argument or log."""
    value = token()
    stdin = f"{value}\n{outside('search')}"
    # The second host has rules, so the gate reads what goes to it.
    run = RUN.replace("exact:cdn.test", "'GET cdn.test/**'")

    result = lab.run(RUN_AND_SEARCH.replace("RUN", run, 1), stdin=stdin.encode(), env={"INSIDE": INSIDE})

    during, ended, after, *said = result.text.splitlines()
    assert [path.rpartition("/")[2] for path in json.loads(during)] == ["control"]
    assert [path.rpartition("/")[2] for path in json.loads(after)] == ["control"]
    assert (ended, said) == ("exit 0", ["403 403 403 403", "0"]), result.errors
    arrived = [(item["sink"], item["scheme"], item["headers"].get("authorization")) for item in lab.sinks("request")]
    assert arrived == [("allowed.test", "https", f"Bearer {value}")]


PUSH = """
IFS= read -r TOKEN; export TOKEN
RUN -- sh -c '
    git init -q -b main && echo x >x && git add x && git -c user.name=a -c user.email=a@b.test commit -q -m x
    git push -q --force https://allowed.test/private.git main </dev/null && git ls-remote https://allowed.test/private.git HEAD refs/heads/main | cut -f2
    git clone -q https://allowed.test/private.git /tmp/clone && cat /tmp/clone/x
    git push -q https://cdn.test/private.git main </dev/null; echo $?
    env | grep -c -F "$(printf %s -accepted)"
    git config --list | grep -c -F -e "$TOKEN"
'
"""


def test_git_pushes_without_a_prompt_and_without_the_token_inside(lab: Lab) -> None:
    """git is answered for the injected host, and for no other."""
    value = token()

    result = lab.run(PUSH.replace("RUN", RUN), stdin=f"{value}\n".encode(), env={"GIT_TERMINAL_PROMPT": "0"})

    assert result.text.splitlines()[-6:] == ["HEAD", "refs/heads/main", "x", "128", "0", "0"], result.errors
    passwords = {item["headers"].get("authorization") for item in lab.sinks("request", sink="cdn.test")}
    assert passwords == {None}


def test_a_gate_with_a_secret_is_one_runs_own(lab: Lab) -> None:
    """Its name ends in the run's id; with the very same line another run has another one, and both go with their runs."""
    result = lab.run(
        "mkfifo hold; exec 3<>hold; export TOKEN=tok_0123456789abcdef; for i in 1 2; do "
        f"{RUN} -- sh -c 'touch /project/up$1; cat' sh $i <&3 & pids=\"$pids $!\"; "
        "done; until [ -e up1 ] && [ -e up2 ]; do sleep 0.02; done; "
        "podman ps --format '{{.Names}}' | sort; "
        "kill $pids; wait; "
        "ls $XDG_RUNTIME_DIR/aisb/g/*/owner 2>/dev/null | wc -l"
    )
    lines = result.text.splitlines()
    gates = [line.rpartition("-")[2] for line in lines if "gate" in line]
    runs = [line.rpartition("-")[2] for line in lines if "run" in line]
    # Those of other runs may be warm still.
    own = sorted(gate for gate in gates if gate in runs)
    assert (len(runs), own, lines[-1]) == (2, sorted(runs), "0"), result.errors


def test_what_cannot_be_injected_is_refused(lab: Lab) -> None:
    """Unset, not allowed, or inside all the same, by a variable or a file: with 2, and no command has run."""
    unset = lab.run(f"{RUN} -- echo ran")
    unreachable = lab.run("TOKEN=tok_0123456789 aisb --allow cdn.test --inject TOKEN@allowed.test -- echo ran")
    inside = lab.run(f"export TOKEN=tok_0123456789; {RUN} --env URL=https://x:$TOKEN@allowed.test -- echo ran")

    in_a_file = lab.run(f"export TOKEN=tok_0123456789abc; echo token=$TOKEN >.npmrc; {RUN} -- echo ran")

    assert [(one.code, one.text) for one in (unset, unreachable, inside, in_a_file)] == [(2, "")] * 4
    assert "TOKEN: this variable is not set" in unset.errors
    assert "add: --allow exact:allowed.test" in unreachable.errors
    assert "stands in the variable URL too" in inside.errors
    assert re.search("stands in .*/project/.npmrc too", in_a_file.errors), in_a_file.errors
