"""What the host runs without asking: nothing inside changes it, and what could be changed all the same is told."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

# A repository whose git runs a good deal, on the host, that the agent may wish to be its own.
REPOSITORY = """
git config --global user.name A; git config --global user.email a@a.test; git config --global init.defaultBranch main
git init -q . && echo one >a && git add a && git commit -qm one
"""
IDENTITY = "export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@a.test GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@a.test; "
NET = "aisb -q --net none"

ATTEMPTS = {
    "write a hook": "echo x >.git/hooks/post-commit",
    "rename the repository": "mv .git .g && cp -r .g .git",
    "rename the hooks": "mv .git/hooks .git/h && mkdir .git/hooks",
    "remove the hooks": "rm -rf .git/hooks && mkdir .git/hooks",
    "a link in the place of the hooks": "ln -sfnT /tmp .git/hooks",
    "exchange the hooks": (
        "mkdir o && python3 -c 'import ctypes; c = ctypes.CDLL(None); "
        'exit(bool(c.renameat2(-100, b"o", -100, b".git/hooks", 2)))\''
    ),
    "write the configuration": "echo '[core] fsmonitor = x' >>.git/config",
    "replace the configuration": "cp .git/config c && mv c .git/config",
    "by git itself": "git config core.fsmonitor x",
    "unmount": "umount .git/config",
    "through another way": "echo x >>/proc/self/cwd/.git/config",
    "the directory of hooks that is configured": "echo x >tools/hooks/pre-push",
    "around it": "mv tools t && mkdir tools",
    "an included file": "echo '[core] pager = x' >>etc/inc",
    "a program that is configured": "echo x >>tools/watch",
    "husky": "echo x >.husky/pre-commit",
    "pi": "mkdir .pi/extensions",
    "direnv": "echo x >>.envrc",
    "MCP": "echo x >>.mcp.json",
    "tasks": "echo x >>.vscode/tasks.json",
    "another tasks.json": "mv .vscode v && mkdir .vscode",
    "a submodule's configuration": "echo '[core] fsmonitor = x' >>.git/modules/sub/config",
    "a submodule's hook": "echo x >.git/modules/sub/hooks/post-checkout",
    "a submodule's repository": "echo 'gitdir: ../evil' >sub/.git",
}
PREPARE = f"""{REPOSITORY}
mkdir -p tools/hooks etc .vscode; touch .envrc .mcp.json .vscode/tasks.json etc/inc tools/watch
git init -q ../sub && git -C ../sub commit -q --allow-empty -m s
git -c protocol.file.allow=always submodule --quiet add ../sub sub
git config core.hooksPath tools/hooks; git config include.path ../etc/inc; git config core.fsmonitor tools/watch
{NET} -- true; find . -type f -o -type d | sort >../before; cat .git/config >../config
"""
EACH_ATTEMPT = """
printf '%s\\n' "$ATTEMPTS" | while IFS= read -r attempt; do
    aisb -q --net none -- sh -c "$attempt" </dev/null 2>/dev/null && echo "allowed: $attempt"
    rm -rf o c
    find . -type f -o -type d | sort | diff ../before - || echo "after: $attempt"
    cmp .git/config ../config
done
"""


def test_nothing_inside_changes_what_the_host_runs(lab: Lab) -> None:
    """Each way ends in an error inside and leaves no trace on the host, not even an empty directory. (A67, A69)"""
    variables = {"ATTEMPTS": "\n".join(ATTEMPTS.values())}

    result = lab.run(f"{PREPARE} {EACH_ATTEMPT}", env=variables, timeout=300)

    assert (result.code, result.text) == (0, ""), result.errors


def test_a_hook_that_was_planted_does_not_run_on_the_host(lab: Lab) -> None:
    """And the host's own hook still does; without the protection the planted one would. (A67)"""
    plant = "printf '#!/bin/sh\\\\ntouch ~/pwned\\\\n' >.git/hooks/post-commit; chmod +x .git/hooks/post-commit"
    result = lab.run(
        f"{REPOSITORY} printf '#!/bin/sh\\ntouch ~/ours\\n' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; "
        f'{NET} -- sh -c "{plant}"; git commit -q --allow-empty -m two; ls ~; '
        f'{NET} --unprotect .git -- sh -c "{plant}"; git commit -q --allow-empty -m two; ls ~'
    )

    assert result.text.split() == ["ours", "project", "ours", "project", "pwned"], result.errors


WORK = """set -e
git switch -qc work; echo two >>a; git commit -qam two; git switch -q main; git branch other work
echo three >b; git add b; git commit -qm three; git switch -q work; git rebase -q main; git switch -q main
git merge -q work; echo four >>a; git stash -q; git stash pop -q; git stash -q; git stash drop -q
git push -q origin main; git fetch -q; git worktree add -q /tmp/w other; git -C /tmp/w log --oneline | wc -l
git worktree remove /tmp/w; git gc -q; git tag v1; git reset -q --hard HEAD~1; git reflog | wc -l; git fsck
"""


def test_everyday_git_works(lab: Lab) -> None:
    """Commit, switch, branch, rebase, merge, stash, fetch, push, worktree, gc, tag, reset; without a word of error."""
    result = lab.run(
        f"{REPOSITORY} git clone -q --bare . bare.git; git remote add origin /project/bare.git; "
        f"printf '/bare.git\\n' >>.git/info/exclude; {IDENTITY} {NET} --env GIT_AUTHOR_NAME --env GIT_AUTHOR_EMAIL "
        '--env GIT_COMMITTER_NAME --env GIT_COMMITTER_EMAIL -- sh -c "$WORK"; echo $?; git -C bare.git log -1 --format=%s',
        env={"WORK": WORK},
    )

    assert (result.text.split()[-2:], result.errors) == (["0", "two"], "")


def test_what_must_write_the_configuration_says_so_and_how_to_let_it(lab: Lab) -> None:
    """git's own message, and aisb's line at the end with the flag; with it the same works. (A67)"""
    result = lab.run(
        f"{REPOSITORY} aisb --net none -- git remote add origin https://a.test/x; echo $?; "
        f"{NET} --unprotect .git/config -- git remote add origin https://a.test/x; echo $?; git remote"
    )

    assert result.text.split()[-2:] == ["0", "origin"]
    assert result.text.split()[0] != "0"
    assert "could not write config file" in result.errors or "could not set" in result.errors
    told = "aisb: something inside tried to write .git/config, which is protected; to let it: --unprotect .git/config"
    assert told in result.errors.splitlines()


def test_what_was_not_there_may_appear_and_is_named_with_what_undoes_it(lab: Lab) -> None:
    """config.worktree, commondir, and files of other tools: at once, and at the end, with the command; it works."""
    result = lab.run(f"""
{REPOSITORY}
(until [ "$(grep -c 'has appeared; to undo it: rm /' said 2>/dev/null)" = 3 ]; do sleep 0.02; done; touch told) &
{NET} -- sh -c 'echo x >.envrc; echo y >.git/commondir; mkdir .vscode; echo z >.vscode/tasks.json
    until [ -e told ]; do sleep 0.02; done' 2>said
wait; sed -n 's/.*has appeared; to undo it: //p' said | sort >first; sed -n 's/.*says; to undo it: //p' said | sort >undo
cmp first undo; cat undo | sed s,$PWD,.,g
sh first; rm said told undo first; ls -A; ls .git/commondir
""")

    assert result.text.splitlines() == [
        "rm ./.envrc", "rm ./.git/commondir", "rm ./.vscode/tasks.json", ".git", ".vscode", "a",
    ]  # fmt: skip


def test_what_became_of_files_is_on_record_where_nobody_hears_it(lab: Lab) -> None:
    """Of a run in the background: in the list of runs, with the file that has all of it."""
    result = lab.run(
        f"{REPOSITORY} run=$({NET} --detach -- sh -c 'echo x >.envrc'); "
        'until aisb ps --all --json >ps && ! grep -q \'"state": *"running"\' ps && grep -q $run ps; do sleep 0.1; done; '
        "sed -n 's/.*may run has changed: \\([^\"]*\\).*/\\1/p' ps | xargs sed s,$PWD,.,g",
        timeout=150,
    )

    assert result.text.splitlines() == [
        "warning: ./.envrc has appeared, and this machine may run what it says; to undo it: rm ./.envrc"
    ], result.errors


def test_a_repository_that_was_made_inside_is_told_with_what_it_holds(lab: Lab) -> None:
    """`git init` works where there was none; a second one below is what a host's `git status` looks into."""
    result = lab.run(
        f"{NET} -- sh -c 'git init -q . && git init -q deep/er && git -C deep/er config core.fsmonitor ./x && "
        'printf "#!/bin/sh\\n" >.git/hooks/pre-commit\' 2>said; sed s,$PWD,.,g said; rm said; ls -A'
    )

    first = "git on this machine obeys what is in it"
    assert result.text.splitlines() == [
        f"aisb: warning: ./.git is new, and {first}: the hooks pre-commit; to undo it: rm -rf ./.git",
        f"aisb: warning: ./deep/er/.git is new, and {first}: core.fsmonitor=./x; to undo it: rm -rf ./deep/er/.git",
        ".git",
        "deep",
    ]


def test_a_repository_that_is_a_link_is_refused_and_one_that_appears_is_told(lab: Lab) -> None:
    """git on the host follows it, and no mount keeps anybody from putting another one in its place."""
    result = lab.run(
        f"{REPOSITORY} mv .git ../r; ln -s ../r .git; {NET} -- touch ran; echo $?; {NET} --unprotect .git -- touch ran; echo $?; "
        f"ls; rm .git; {NET} -- sh -c 'mkdir lib; ln -s /srv/evil lib/.git' 2>said; sed s,$PWD,.,g said"
    )

    assert result.text.splitlines() == [
        "77", "0", "a", "ran",
        "aisb: warning: ./lib/.git is new, and git on this machine obeys what is in it: a link to /srv/evil; "
        "to undo it: rm -rf ./lib/.git",
    ]  # fmt: skip
    assert "is a symbolic link, so that nothing protects what git obeys" in result.errors


LED = """
mkdir -p tools/hooks editor secrets; echo '{}' >editor/tasks.json; echo A=1 >secrets/prod; ln -s secrets/prod .env
rm -r .git/hooks; ln -s ../tools/hooks .git/hooks; ln -s editor .vscode
"""
WRITE = """
echo x >tools/hooks/pre-commit; mv tools t; echo x >editor/tasks.json; rm .git/hooks && mkdir .git/hooks; cat secrets/prod
"""


def test_what_a_link_in_the_project_leads_to_is_protected(lab: Lab) -> None:
    """git follows it. That the link itself is another is told, and there is nothing of the agent's behind the first one."""
    result = lab.run(
        f"{REPOSITORY} {LED} {NET} -- sh -c '{WRITE}' 2>said; grep -c -e 'Read-only' -e 'busy' said; "
        "grep 'to undo it\\|changed during\\|is protected' said | sed s,$PWD,.,g; ls tools/hooks; cat editor/tasks.json",
    )

    count, *told = result.text.splitlines()
    assert (count, told[-1]) == ("3", "{}"), result.text
    # Told at once where there is time for it, and at the end.
    assert {"./.git/hooks" in line for line in told[:-1]} == {True}


LINKED = """
printf '#!/bin/sh\n: ours\n' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; ln .git/hooks/pre-commit other
"""
BY_ANOTHER_NAME = "touch -r other kept; printf '#!/bin/sh\n: them\n' >other; touch -r kept other; rm kept"


def test_what_was_written_by_another_name_of_a_hook_is_told(lab: Lab) -> None:
    """A mount is over one name of a file, and a hard link has another; the time that it says is the agent's to set."""
    result = lab.run(
        f"{REPOSITORY} {LINKED} touch -d '1 hour ago' other; {NET} -- sh -c \"$BY_ANOTHER_NAME\" 2>said; tail -1 .git/hooks/pre-commit; "
        "grep protected said | sed s,$PWD,.,g",
        env={"BY_ANOTHER_NAME": BY_ANOTHER_NAME},
    )

    assert result.text.splitlines() == [
        ": them",
        "aisb: warning: ./.git/hooks, which is protected, has changed during this run, by somebody here or from inside: look at it",
    ], result.errors


BARE = """
git init -q --bare /tmp/b; cp -r /tmp/b lib/b; for place in . lib/b lib/c; do
    mkdir -p $place; cp -r /tmp/b/HEAD /tmp/b/objects /tmp/b/refs $place
    printf '[core]\n\trepositoryformatversion = 0\n\tworktree = .\n\tfsmonitor = "touch ~/pwned;:"\n' >$place/config
done
"""


def test_a_repository_without_a_work_tree_is_told_and_one_that_was_there_is_protected(lab: Lab) -> None:
    """git takes any directory of that form for one, the project's own too, and what it is told to start it starts."""
    result = lab.run(
        f'git init -q --bare lib/old; {NET} -- sh -c "$BARE" 2>said; git -C lib/c status >/dev/null 2>&1; ls ~; '
        f"sed -n 's/.*to undo it: //p' said >undo; sed s,$PWD,.,g undo; sh undo; rm ~/pwned; "
        f"git status 2>&1; git -C lib/c status 2>&1; ls ~; {NET} -- sh -c 'echo x >>lib/old/config; echo x >lib/old/hooks/post-receive' 2>&1 | grep -c Read-only",
        env={"BARE": BARE},
    )

    lines = result.text.splitlines()
    assert lines[:4] == ["project", "pwned", "rm ./HEAD", "rm ./lib/b/HEAD"], result.errors
    assert (lines[4], lines[-2:]) == ("rm ./lib/c/HEAD", ["project", "2"])


DEEP = """
echo 'gitdir: /tmp/evil' >m/b/c/d/sub/.git && echo written; mkdir -p x/y/z/w/n; git init -q x/y/z/w/n
git -C x/y/z/w/n commit -q --allow-empty -m n; printf '[core]\n\tfsmonitor = "touch ~/pwned;:"\n' >>x/y/z/w/n/.git/config
git update-index --add --cacheinfo 160000,$(git -C x/y/z/w/n rev-parse HEAD),x/y/z/w/n
"""


def test_what_git_status_looks_into_is_protected_or_told_however_deep_it_lies(lab: Lab) -> None:
    """A submodule's `.git` cannot be exchanged; what an agent puts into the index is told, and undone by what is said."""
    result = lab.run(
        f"{REPOSITORY} git init -q ../sub && git -C ../sub commit -q --allow-empty -m s; "
        "git -c protocol.file.allow=always submodule --quiet add ../sub m/b/c/d/sub; git commit -qm sub; "
        f'{IDENTITY} {NET} --env GIT_AUTHOR_NAME --env GIT_AUTHOR_EMAIL --env GIT_COMMITTER_NAME --env GIT_COMMITTER_EMAIL -- sh -c "$DEEP" 2>said; '
        "grep -c 'm/b/c/d/sub/.git: Read-only' said; sed -n 's/.*to undo it: //p' said >undo; sed s,$PWD,.,g undo; "
        "git status >/dev/null 2>&1; ls ~; rm ~/pwned; sh undo; git status >/dev/null 2>&1; ls ~",
        env={"DEEP": DEEP},
    )

    assert result.text.split("\n") == [
        "1", "rm -rf ./x/y/z/w/n/.git", "project", "pwned", "sub", "project", "sub", "",
    ], result.errors  # fmt: skip


CROWD = """
mkdir -p .git/modules; for n in $(seq 250); do mkdir .git/modules/$n; echo x >.git/modules/$n/HEAD; mkdir d$n; done
"""


def test_what_an_agent_makes_in_numbers_leaves_nothing_open_in_its_next_run(lab: Lab) -> None:
    """Modules before the one that counts, and more directories than a process may open."""
    result = lab.run(
        f"{REPOSITORY} git init -q ../sub && git -C ../sub commit -q --allow-empty -m s; ulimit -Sn 256; "
        f'git -c protocol.file.allow=always submodule --quiet add ../sub sub; {NET} -- sh -c "$CROWD"; '
        f"{NET} -- sh -c 'echo x >>.git/modules/sub/config; echo x >>.git/config; true' 2>&1 | grep -c Read-only; "
        "mkdir .git/modules/m; for n in $(seq 300); do mkdir .git/modules/m$n; touch .git/modules/m$n/HEAD; done; "
        f"{NET} -- true; echo $?; {NET} --unprotect .git -- true; echo $?; chmod 0 .git; {NET} -- true; echo $?; chmod 700 .git",
        env={"CROWD": CROWD},
    )

    assert result.text.split() == ["2", "77", "0", "77"], result.errors
    assert "there is more of git in" in result.errors
    assert "is closed to you (its mode is 0000), so that nothing protects what is in it" in result.errors


def test_what_else_may_be_run_is_listed_and_left_alone(lab: Lab) -> None:
    """The end of a run names it, new and changed, and what only lies beside is not. (A69)"""
    result = lab.run(
        "mkdir -p .github/workflows .venv .claude; echo 1 >package.json; echo 1 >Makefile; echo 1 >.github/workflows/ci.yml; "
        "touch .venv/pyvenv.cfg; aisb --net none -- sh -c 'echo 2 >package.json; echo 2 >.github/workflows/ci.yml; "
        "echo 2 >.venv/pyvenv.cfg; mkdir -p tests node_modules/.bin .vscode; touch tests/conftest.py node_modules/.bin/x "
        ".vscode/settings.json .claude/settings.json; echo text >notes.txt' 2>&1 | tail -1"
    )

    assert result.text == (
        "aisb: changed, and may be run on this machine: .claude/settings.json (new), .github/workflows/ci.yml, "
        ".venv/pyvenv.cfg, .vscode/settings.json (new), node_modules/.bin/x (new), package.json, tests/conftest.py (new)\n"
    )


# Runs until the host has done something, and says what it sees then; each wait has a bound.
WAITS = """
wait_for() { n=0; until [ -e "$1" ] || [ $n -gt 300 ]; do sleep 0.1; n=$((n + 1)); done; }
touch ready; wait_for go; n=0
until ! { echo "$2" >>"$1"; } 2>/dev/null || [ $n -gt 300 ]; do sleep 0.1; n=$((n + 1)); done
[ $n -lt 300 ] && echo "read-only again"; cat "$1"; mv "$1" "$1.moved" 2>/dev/null && echo moved; true
"""
HOST_REPLACES = """
%s &
n=0; until [ -e ready ] || [ $n -gt 300 ]; do sleep 0.1; n=$((n + 1)); done
%s; touch go; wait; ls -A
"""


def test_the_hosts_own_git_config_during_a_run_leaves_it_protected(lab: Lab) -> None:
    """Its file is replaced by a rename, which takes the mount away: it is there again, over the new file. (D5)"""
    run = f'{NET} -- sh -c "$WAITS" sh .git/config "# evil"'
    result = lab.run(
        f"{REPOSITORY} {HOST_REPLACES % (run, 'git config x.y z')} git config x.y",
        env={"WAITS": WAITS},
    )

    lines = result.text.splitlines()
    found = [line for line in ("read-only again", "moved", "\ty = z") if line in lines]
    assert found == ["read-only again", "\ty = z"], result.text
    assert "/project/.git/config has changed" in result.errors
    assert lines[-1] == "z"


def test_no_run_starts_beside_one_whose_agent_can_exchange_what_lies_around_a_mask(lab: Lab) -> None:
    """At the right moment a link there would lay the agent's own files over the programs that begin a sandbox, as root."""
    result = lab.run(
        "aisb -q --net none -- sh -c 'echo A=1 >.env; touch here; while [ ! -e go ]; do sleep 0.1; done; "
        "mkdir sub; echo A=1 >sub/.env; touch there; while [ -e go ]; do sleep 0.1; done' & "
        "until [ -e here ]; do kill -0 $! || exit; sleep 0.1; done; aisb -q --net none -- cat .env; echo $?; touch go; "
        "until [ -e there ]; do kill -0 $! || exit; sleep 0.1; done; aisb -q --net none -- touch no; echo $?; "
        "rm go; wait; aisb -q --net none -- cat sub/.env; echo $?; ls",
        timeout=150,
    )

    assert result.text.split() == ["0", "77", "0", "here", "sub", "there"], result.errors
    assert re.search(r"the agent of run [0-9a-f]{8} can replace /\S+/sub, which was not there", result.errors)


def test_two_runs_of_one_project_end_in_either_order(lab: Lab) -> None:
    """What was made for them stays while one of them runs, and is gone after the last; nothing was staged. (D5)"""
    two = """
wait_for() { n=0; until [ -e "$1" ] || [ $n -gt 600 ]; do sleep 0.1; n=$((n + 1)); done; }
for run in 1 2; do
    aisb -q --net none -- sh -c 'touch begun.$1; n=0; until [ -e end.$1 ] || [ $n -gt 600 ]; do sleep 0.1; n=$((n+1)); done
        touch .husky/x 2>/dev/null && echo "written in $1"; git add -A; touch over.$1' sh $run & eval "pid$run=$!"
done
wait_for begun.1; wait_for begun.2
first=$1; last=$((3 - $1))
touch end.$first; eval "wait \\$pid$first"; ls -d .husky .pi; touch end.$last; eval "wait \\$pid$last"
git diff --cached --name-only | grep -v 'begun\\|end\\|over'; ls -A | grep -v 'begun\\|end\\|over'; rm -f begun.* end.* over.*
"""
    for first in ("1", "2"):
        result = lab.run(f'{REPOSITORY} sh -c "$TWO" sh {first}', env={"TWO": two})
        assert result.text.split() == [".husky", ".pi", ".git", "a"], result.errors


def test_after_kill_9_no_stray_file_remains_once_the_next_run_began(lab: Lab) -> None:
    """Of this project or of another: aisb and its guardian are both killed."""
    result = lab.run(
        f"{REPOSITORY} {NET} -- sh -c 'touch ready; sleep 600' & pid=$!; "
        "n=0; until [ -e ready ] || [ $n -gt 300 ]; do sleep 0.1; n=$((n + 1)); done; "
        "for each in $(ps -o pid= --ppid $pid) $pid; do kill -9 $each; done; wait $pid; "
        "rm ready; ls -A; mkdir ../other; cd ../other; aisb -q --net none -- true; ls -A ../project"
    )

    assert result.text.split() == [".git", ".husky", ".pi", "a", ".git", "a"], result.errors
