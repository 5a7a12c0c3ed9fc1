"""What is mounted besides the project, what reads as empty in it, where the home is, and repositories that lie elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.e2e.sandbox import outside
from tests.e2e.test_files_protected import HOST_REPLACES, NET, REPOSITORY

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

ANSWER = {"ANSWER": outside("answer")}


def test_a_mount_is_what_was_said_and_where_and_is_shown(lab: Lab) -> None:
    """Read-only unless it says more; with blanks, colons and commas; below the home, the project, or as it is. (C20)"""
    result = lab.run(
        "mkdir -p ~/data '/tmp/a b' ~/c:d,e sub ~/x; for d in ~/data '/tmp/a b' ~/c:d,e ~/x; do echo $d >$d/f; done; "
        "ln -s data ~/link; aisb --net none --mount ~/link --mount '/tmp/a b:/m/a b:rw' "
        '--mount "type=bind,\\"src=$HOME/c:d,e\\",dst=/m/c,ro" --mount ~/x:/project/sub -- '
        'sh -c \'cat ~/link/f "/m/a b/f" /m/c/f sub/f; touch ~/link/n; touch "/m/a b/n"; touch /m/c/n; touch sub/n\' '
        "2>said; grep -c 'Read-only' said; ls '/tmp/a b'; sed -n 's,.*aisb: /,/,p' said; rm -r '/tmp/a b'"
    )

    lines = [line.replace("/home/aisb-lab", "~") for line in result.text.splitlines()]
    assert lines[1] == "/tmp/a b"
    assert lines[4:7] == ["3", "f", "n"]
    assert [line.rpartition(" -> ")[2] for line in lines[7:]] == [
        "/home/sandbox/link (ro)", "/m/a b (rw)", "/m/c (ro)", "/project/sub (ro)",
    ]  # fmt: skip


REFUSED = {
    "--mount ./data:/data:ro": "leads through the project to",
    "--mount ~/.ssh:/k:rw": "not to be mounted writable",
    "--mount /run:/m": "the system's own sockets",
    "--mount ~:/m": "holds your home directory",
    "--mount ~/none": "No such file",
    "--mount ~/.local/state/ai-sandbox:/m": "decides what a sandbox may do",
    "--mount ~/x:/etc": "nothing may be mounted at /etc",
    "--mount ~/x://etc": "not a whole path in its plain form",
    "--mount //etc/hostname": "nothing may be mounted at /etc/hostname",
    "--mount ~/x:/run/aisb/gate": "nothing may be mounted at /run/aisb/gate",
    "--mount ~/x:/usr/libexec/aisb": "nothing may be mounted at /usr/libexec/aisb",
    "--mount ~/x:/project/.git/hooks": "which is protected or masked",
    "--mount ~/x:/project/none": "there is no directory",
    "--mount .git:/g:rw": "is protected, and would not be at /g",
    "--mount .:/again": "is masked, and would not be at /again",
    "--mount ~/x:/m --mount ~/y:/m": "two mounts at /m",
}


def test_what_may_not_be_mounted_is_refused_with_the_reason(lab: Lab) -> None:
    """A link that an agent made, sockets, homes, state, and targets that enforce; nothing runs. (A70, C29)"""
    each = "\n".join(f"aisb -q --net none {flags} -- touch ran 2>&1 | head -1" for flags in REFUSED)
    result = lab.run(
        f"{REPOSITORY} mkdir -p ~/.ssh ~/x ~/y ~/.local/state/ai-sandbox; ln -s ~/.ssh data; echo A=1 >.env\n{each}\nls",
        timeout=200,
    )

    *lines, a, data = result.text.splitlines()
    assert (a, data) == ("a", "data")
    assert [line for line, why in zip(lines, REFUSED.values(), strict=True) if why not in line] == []


def test_no_socket_is_reached_through_a_mount(lab: Lab) -> None:
    """
    Not one that is there, nor one born later: the directory is mounted file by file. One that is named is there.

    What was made in the home to mount over is the sandbox's own, and later runs can do with it what they like.
    """
    listen = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); "
        "open(sys.argv[1] + '.up', 'w').close(); s.accept()[0].send(b'agent')"
    )
    connect = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.settimeout(10); s.connect(sys.argv[1]); print(s.recv(9))"
    result = lab.run(
        "mkdir -p ~/agent ~/.ssh; echo key >~/.ssh/id; "
        'python3 -c "$LISTEN" ~/agent/S & n=0; until [ -e ~/agent/S.up ] || [ $n -gt 300 ]; do sleep 0.1; n=$((n+1)); done; '
        'aisb -q --net none --mount ~/agent --mount ~/.ssh --mount ~/agent/S:/m/S -- sh -c "ls ~/agent ~/.ssh; '
        'python3 -c \\"\\$0\\" ~/agent/S; python3 -c \\"\\$0\\" /m/S" "$CONNECT"; '
        "aisb -q --net none -- sh -c 'rm ~/.ssh/id && touch ~/.ssh/new ~/agent/new && echo mine'",
        env={"LISTEN": listen, "CONNECT": connect},
    )

    assert result.text.split() == [
        "/home/sandbox/.ssh:", "id", "/home/sandbox/agent:", "S.up", "b'agent'", "mine",
    ], result.errors  # fmt: skip
    assert "FileNotFoundError" in result.errors


PLANT = """
printf '#!/bin/sh\\nid >/project/root\\n' >~/cache/entrypoint; chmod +x ~/cache/entrypoint
mv ~/a ~/b; mkdir ~/a; ln -s /usr/libexec/aisb ~/a/cache; ln -s ~/cache ~/link; ls ~
"""
BELOW = """
mkdir -p ~/data ~/x a; chmod 777 .; data="$HOME/data:/home/sandbox"
aisb -q --net none --mount $data/a/cache:rw --mount $data/cache:rw -- sh -c "$PLANT"
for place in a/cache link/in cache; do aisb -q --net none --mount $data/$place:rw -- sh -c 'echo ran $(id -u)'; echo $?; done
aisb -q --net none --mount $data/cache -- sh -c 'touch up; while [ -e up ]; do sleep 0.1; done' &
until [ -e up ]; do kill -0 $! || exit; sleep 0.1; done
for flags in "$data/cache" "$data/other" "$data/cache/in" "$data/cache --mount $HOME/x" "$HOME/x:/mnt/x"; do
    aisb -q --net none --mount $flags -- true; echo $?
done
aisb -q --net none --ephemeral-home --mount $data/other -- true; echo $?; rm up; wait; ls
"""


def test_no_mount_below_a_home_lands_where_an_agent_leads_it(lab: Lab) -> None:
    """
    By no link that was left there, which would lay the agent's files over the programs that begin a sandbox, as root; and
    by none that an agent of another run could make meanwhile.
    """
    result = lab.run(BELOW, env={"PLANT": PLANT}, timeout=200)

    assert result.text.split() == [
        "a", "b", "cache", "link", "77", "77", "ran", "1000", "0",
        "0", "77", "77", "77", "0",
        "0", "a",
    ], result.errors  # fmt: skip
    assert result.errors.count("is no place for a mount: something else was put there") == 2
    assert result.errors.count("has the home aisb-home-") == 3


def test_secrets_in_files_read_as_empty_and_stay_what_they_are(lab: Lab) -> None:
    """By default, by a pattern, and not where that is switched off; nothing inside takes a mask away."""
    result = lab.run(
        "mkdir conf; echo S=1 >.env; echo S=2 >conf/.env.local; echo S= >.env.example; echo T >token; "
        "printf -- '-----BEGIN PRIVATE KEY-----\\nx\\n' >conf/k.pem; "
        f"{NET} --mask token -- sh -c 'cat .env conf/.env.local conf/k.pem token; cat .env.example; "
        "echo x >.env; rm -f conf/k.pem; mv conf c && mkdir conf; umount .env; true' 2>/dev/null; "
        f"{NET} --no-default-masks -- cat .env; cat .env conf/.env.local token; head -1 conf/k.pem"
    )

    assert result.text.split("\n") == [
        "S=", "S=1", "S=1", "S=2", "T", "-----BEGIN PRIVATE KEY-----", "",
    ], result.errors  # fmt: skip


def test_a_writable_mount_is_masked_and_protected_as_the_project_is(lab: Lab) -> None:
    """Names are, and paths mean the project; nothing inside takes it away. A read-only one shows what it was named for."""
    result = lab.run(
        "git init -q ~/other; mkdir ~/other/conf; echo S=1 >~/other/.env; echo T >~/other/conf/a.secret; "
        f"echo P >~/other/conf/plain; {NET} --mount ~/other:/o:rw --mask '*.secret' --mask conf/plain -- sh -c '"
        "cat /o/.env /o/conf/a.secret /o/conf/plain; echo x >/o/.env; rm -f /o/.env; mv /o/conf /o/c; "
        "echo x >/o/.git/hooks/x; touch /o/new' 2>/dev/null; "
        f"{NET} --mount ~/other:/o -- cat /o/.env; cat ~/other/.env ~/other/conf/*; ls -A ~/other; ls ~/other/.git/hooks/x"
    )

    assert result.text.split() == [
        "P", "S=1", "S=1", "T", "P", ".env", ".git", "conf", "new",
    ], result.errors  # fmt: skip


def test_a_mask_that_an_editor_took_away_is_put_back_and_told(lab: Lab) -> None:
    """The editor replaces the file by a rename; after a moment the new one reads as empty too."""
    look = (
        "touch ready; n=0; until [ -e go ] || [ $n -gt 300 ]; do sleep 0.1; n=$((n+1)); done; n=0; "
        'while [ -s .env ] && [ $n -lt 300 ]; do sleep 0.1; n=$((n+1)); done; cat .env; echo "empty again $((n < 300))"'
    )
    run = f"{NET} -- sh -c '{look}'"
    edit = "echo S=2 >.env.new~; mv .env.new~ .env"

    result = lab.run(f"echo S=1 >.env; {HOST_REPLACES % (run, edit)} cat .env")

    assert result.text.splitlines()[0] == "empty again 1", result.errors
    assert result.text.splitlines()[-1] == "S=2"
    assert "/project/.env was replaced" in result.errors


def test_homes_are_of_the_project_shared_or_gone(lab: Lab) -> None:
    """And with a read-only image little can be written. (A74, C54)"""
    home = "sh -c 'cat ~/mine 2>/dev/null; echo $0 >~/mine'"
    result = lab.run(
        f"mkdir a b; cd a; {NET} -- {home} own; {NET} -- {home} x; {NET} --shared-home -- {home} shared; cd ../b; "
        f"{NET} -- {home} other; {NET} --shared-home -- {home} y; {NET} --ephemeral-home -- {home} gone; "
        f"{NET} --ephemeral-home -- {home} gone; podman volume ls -q | grep -cv aisb-home; podman volume rm aisb-home; "
        f"{NET} --read-only -- sh -c 'touch /tmp/x /var/tmp/x ~/x /project/x $XDG_RUNTIME_DIR/x && echo written; "
        "for p in /usr/x /etc/x /opt/x /var/x /x; do touch $p 2>/dev/null && echo $p; done; git --version >/dev/null'"
    )

    assert result.text.split() == ["own", "shared", "0", "aisb-home", "written"], result.errors


def test_a_worktree_and_a_submodule_work_once_their_repository_was_seen(lab: Lab) -> None:
    """Without that nothing runs: 78. Status, commit, log; hooks and configuration are protected there too. (B08)"""
    work = (
        "sh -c 'git status --short; echo two >b; git add b; git commit -qm in-$0; git log --format=%s; "
        "d=$(git rev-parse --git-common-dir); echo x >$d/hooks/evil; echo x >>$d/config; mv $d/hooks $d/h'"
    )
    identity = "--env GIT_AUTHOR_NAME --env GIT_AUTHOR_EMAIL --env GIT_COMMITTER_NAME --env GIT_COMMITTER_EMAIL"
    result = lab.run(
        f"{REPOSITORY} git init -q ../sub; git -C ../sub commit -q --allow-empty -m sub; git worktree add -q ../wt; "
        "git -c protocol.file.allow=always submodule --quiet add ../sub sub; git commit -qm sub; "
        "export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@a.test GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@a.test; "
        f'for p in ../wt sub; do (cd $p; {NET} -- touch ran; echo $?; python3 -c "$ANSWER" y aisb trust .git >/dev/null; '
        f"{NET} {identity} -- {work} $(basename $p); git log --format=%s | head -1; git status --short); done; "
        "ls .git/hooks/evil .git/modules/sub/hooks/evil; git worktree list | wc -l",
        env=ANSWER,
        timeout=200,
    )

    assert result.text.split() == [
        "78", "in-wt", "one", "in-wt", "78", "in-sub", "sub", "in-sub", "2",
    ], result.errors  # fmt: skip


def test_a_planted_git_file_mounts_nothing(lab: Lab) -> None:
    """One that names a directory of keys is said to, and nothing of it is inside. (B08)"""
    result = lab.run(
        'mkdir -p ~/.ssh; echo key >~/.ssh/id; echo "gitdir: $HOME/.ssh" >.git; '
        "aisb --net none -- sh -c \"ls $HOME/.ssh; ls ~/.ssh; true\" 2>&1 | grep -v 'aisb: [~n]o* *n*' | sed s,$HOME,HOME,g; "
        "aisb --net none -- true 2>&1 | grep -o 'which is no git directory of this project: it is not mounted'"
    )

    assert result.text.splitlines()[-1] == "which is no git directory of this project: it is not mounted"
    assert "key" not in result.text
    assert result.text.count("No such file or directory") == 2


def test_on_an_enforcing_host_nothing_is_relabelled(lab: Lab) -> None:
    """
    Sandbox and gate run without a label of their own, wherever the project lies; it is in the argv. A host with SELinux
    is imitated by its file: a real one was not tried. (C30)
    """
    enforcing = "mount -t tmpfs none /sys/fs && mkdir -p /sys/fs/selinux && echo 1 >/sys/fs/selinux/enforce && "
    result = lab.run(
        "mkdir -p ~/.ssh ~/x; unshare -Urm sh -c '" + enforcing + "cat /sys/fs/selinux/enforce; "
        "aisb --allow allowed.test --mount ~/.ssh:ro --mount ~/x:rw --dry-run -- true'"
    )

    first, *lines = result.text.splitlines()
    commands = [line for line in lines if "podman run " in line]
    assert (first, len(commands)) == ("1", 2), result.errors
    assert all("--security-opt label=disable" in line for line in commands)
    assert not any(word in line for line in commands for word in (":z", ":Z", "relabel"))
