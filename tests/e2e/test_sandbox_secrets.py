"""A variable's value reaches the command, and is nowhere else: during the run and after it."""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import TYPE_CHECKING

from tests.e2e.sandbox import outside

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

# The command proves by its hash that it has the value, looks for it where others inside might show it, and prints a
# part of it: what a command says is on its way to the caller, and in no log.
INSIDE = """
printf %s "$AI_TOKEN" | sha256sum | cut -d" " -f1
cat /proc/*/cmdline /proc/*/mountinfo /run/aisb/* /run/.containerenv 2>/dev/null | grep -a -c -F -f /dev/fd/3 3<<END
$FIRST
$SECOND
END
for process in /proc/[0-9]*; do
    [ "$(stat -c %u $process)" = 1000 ] || cat $process/environ
done
echo "$FIRST"
touch /project/up
cat
"""
RUN_AND_SEARCH = """
IFS= read -r first; IFS= read -r second
token="$first
*
$second"
echo "$first" >~/control
since=$(date +%s)
search() {  printf '%s\n' "$first" "$second" | podman unshare python3 ~/search.py $since; }
cat >~/search.py

mkfifo hold out
tr a-f A-F <out >said &
AI_TOKEN=$token FIRST=$first SECOND=$second \
    aisb --allow allowed.test --env AI_TOKEN --env FIRST --env SECOND --trace --timings -- sh -c "$INSIDE" \
    <hold >out 2>words &
run=$!
exec 3>hold
until [ -e up ]; do kill -0 $run || { cat words; exit 9; }; sleep 0.02; done
podman inspect $(podman ps -q --filter label=aisb.role=sandbox) >inspected
podman ps -a --no-trunc >listed
cp -r "$XDG_RUNTIME_DIR/aisb" copy
search
exec 3>&-
wait $run; echo "exit $?"
wait; search
cat said
"""


def test_a_value_is_nowhere_but_in_the_commands_own_environment(lab: Lab) -> None:
    """
    A56: not in an argument, `podman inspect`, podman's database, the OCI configuration, a log or any other file.

    The value holds a newline and a `*`, with which podman's own environment files import the host's variables (A65).
    """
    first, second = secrets.token_hex(16), secrets.token_hex(16)
    stdin = f"{first}\n{second}\n{outside('search')}"

    result = lab.run(RUN_AND_SEARCH, stdin=stdin.encode(), env={"INSIDE": INSIDE})

    value = hashlib.sha256(f"{first}\n*\n{second}".encode()).hexdigest()
    during, ended, after, *said = result.text.splitlines()
    assert [path.rpartition("/")[2] for path in json.loads(during)] == ["control"]
    assert [path.rpartition("/")[2] for path in json.loads(after)] == ["control"]
    assert (ended, said) == ("exit 0", [value.upper(), "0", first.upper()]), said


OF_PODMANS_OWN = """
since=$(date +%s)
image=$(podman images --quiet --filter reference=localhost/aisb-sandbox | head -1)
container=$(podman run --detach --rm --network none --env TOKEN="$FIRST" --entrypoint sleep "$image" 600)
cat >~/search.py
echo "$FIRST" | podman unshare python3 ~/search.py $since
podman rm --force --time 0 "$container" >/dev/null
"""


def test_that_search_finds_what_podman_writes_down_of_its_own_variables(lab: Lab) -> None:
    """The same value by podman's `--env` is in its database and in the OCI configuration: the search looks there. (A56)"""
    result = lab.run(OF_PODMANS_OWN, stdin=outside("search").encode(), env={"FIRST": secrets.token_hex(16)})

    found = {path.rpartition("/")[2].partition("-")[0] for path in json.loads(result.text)}
    assert "config.json" in found, result.errors
    assert found & {"db.sql", "bolt_state.db"}
