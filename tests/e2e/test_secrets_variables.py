"""What is passed in arrives byte for byte, acts as the command's user alone, and nothing else of the host's is inside."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.e2e.sandbox import report_of

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

# Each value as hexadecimal digits, so that nothing on the way can change one unseen.
SHOW = (
    "import json, os; print(json.dumps({n.decode(): v.hex() for n, v in os.environb.items() if n.startswith(b'V_')}))"
)
VALUES = {
    "V_LINES": b"one\ntwo\n\n*\nHOME\nV_MORE=1\n",
    "V_QUOTES": b"' \" ` \\n $HOME ${X} $(id)",
    "V_EQUALS": b"=a==b=",
    "V_UTF8": "\u00e4\u20ac\U0001f600".encode(),
    "V_BYTES": b"\xff\xfe\x80 latin \xe4 \x01\x1b[31m",
    "V_BLANKS": b"  a \t ",
    "V_EMPTY": b"",
    "V_LARGE": b"x" * 100_000,
}
# The values come on stdin, as JSON of hexadecimal digits, and go into the environment, a file and the command line.
BY_NAME = """
import json, os, subprocess, sys
values = {name.encode(): bytes.fromhex(value) for name, value in json.load(sys.stdin).items()}
own = {**os.environb, b"V_NOT_NAMED": b"secret", **values}
flags = [word for name in values for word in (b"--env", name)]
def run(*flags, env=os.environb):
    done = subprocess.run([b"aisb", b"-q", b"--net", b"none", *flags, b"--", b"python3", b"-c", os.environb[b"SHOW"]],
                          env=env, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)
quoted = {n: v.replace(b"\\\\", b"\\\\\\\\").replace(b'"', b'\\\\"') for n, v in values.items()}
with open("../values", "wb", opener=lambda path, how: os.open(path, how, 0o600)) as file:
    file.write(b"".join(n + b'="' + v + b'"\\n' for n, v in quoted.items()))
renamed = [word for name in values for word in (b"--env", name + b"2=@" + name)]
print(json.dumps({
    "name": run(*flags, env=own),
    "file": run(b"--env-file", b"../values"),
    "renamed": run(*renamed, env=own),
    "value": run(*[word for name, value in values.items() for word in (b"--env", name + b"=" + value)]),
}))
"""


def test_every_value_arrives_byte_for_byte_by_each_way(lab: Lab) -> None:
    """(A65, C14) Line breaks, quotes, `=`, `*`, blanks, UTF-8 and what is none; and what is not named is not there."""
    expected = {name: value.hex() for name, value in VALUES.items()}

    stdin = json.dumps(expected).encode()
    result = lab.run('python3 -c "$BY_NAME"', stdin=stdin, env={"SHOW": SHOW, "BY_NAME": BY_NAME})

    assert report_of(result) == {
        "name": expected,
        "file": expected,
        "renamed": {f"{name}2": value for name, value in expected.items()},
        "value": expected,
    }


HOSTILE = """
set -eu
cat >x.sh <<'END'
echo "$(id -u) $(grep CapEff /proc/self/status | cut -f2)" >>/project/acted
END
cat >sitecustomize.py <<'END'
import os
with open("/proc/self/status") as status:
    mask = next(line.split()[1] for line in status if line.startswith("CapEff"))
with open("/project/acted", "a") as file:
    print(os.getuid(), mask, file=file)
END
mkdir bin
for name in nft ip setpriv sh python3 cat env; do cp x.sh bin/$name; chmod +x bin/$name; done
sed -i '1i #!/bin/bash' bin/*
cat >x.c <<'END'
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void act(void) {
    FILE *file = fopen("/project/acted", "a");
    if (file) { fprintf(file, "%d preload\\n", (int) getuid()); fclose(file); }
}
END
aisb -q --net none -- gcc -shared -fPIC -o x.so x.c
aisb -q --net none --env BASH_ENV=/project/x.sh --env ENV=/project/x.sh --env LD_PRELOAD=/project/x.so \\
    --env PATH=/project/bin:/usr/bin:/bin --env PYTHONPATH=/project --env PYTHONSTARTUP=/project/sitecustomize.py \\
    --env GCONV_PATH=/project --env IFS=/ --env PYTHONHOME=/project/bin -- /bin/bash -c '/usr/bin/true; exit 0'
sort -u acted
"""


def test_what_is_passed_in_never_acts_as_root(lab: Lab) -> None:
    """(A50) Loaders' and shells' variables and search paths act after the drop: as uid 1000, without a capability."""
    result = lab.run(HOSTILE)

    assert result.code == 0, result.errors
    assert result.text.splitlines() == ["1000 0000000000000000", "1000 preload"]


IDENTITY = """
git config --global user.name 'Ada "Ex" Ample'
git config --global user.email ada@example.com
git config --global credential.helper '!echo password=secret'
aisb -q --net none -- sh -c 'git init -q && git commit -q --allow-empty -m x && git log --format="%an <%ae> %cn <%ce>"; git config --global -l'
aisb -q --net none --env GIT_AUTHOR_NAME=Bob -- git -c safe.directory='*' commit -q --allow-empty -m y && aisb -q --net none -- git log -1 --format="%an %cn"
aisb -q --net none --no-git-identity -- sh -c 'env | grep -c -E "^GIT_(AUTHOR|COMMITTER)"'
aisb -q --net none --trace -- true 2>trace; grep -c 'git config' trace
"""


def test_git_knows_who_commits_and_nothing_else_of_the_callers(lab: Lab) -> None:
    """What the user passes in is stronger, it can be left out, and a warm start asks no git."""
    result = lab.run(IDENTITY)

    ada = 'Ada "Ex" Ample <ada@example.com>'
    assert result.text.splitlines() == [f"{ada} {ada}", 'Bob Ada "Ex" Ample', "0", "0"], result.errors
