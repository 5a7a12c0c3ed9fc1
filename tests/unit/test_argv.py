"""podman's argv for a sandbox, whole: a protection that goes missing turns this red."""

from __future__ import annotations

import csv

from hypothesis import given
from hypothesis import strategies as st

from aisb.render.argv import Mount, SandboxView, project_mounts, sandbox_argv, session_mounts


def make_view(**changes: object) -> SandboxView:
    view = SandboxView(
        podman="/usr/bin/podman",
        run="1a2b3c4d",
        image="localhost/aisb-sandbox:0123456789abcdef",
        network="none",
        seccomp="/run/user/1000/aisb/r/1a2b3c4d/seccomp.json",
        workdir="/project",
        mounts=(
            *session_mounts("/run/user/1000/aisb/r/1a2b3c4d/run", "/run/user/1000/aisb/r/1a2b3c4d/s"),
            Mount("aisb-home-x-123456", "/home/sandbox", read_only=False),
            *project_mounts("/home/u/a,b", "/project", policy_directory=True),
        ),
        labels=(("aisb.role", "sandbox"),),
        stdin=True,
        terminal=False,
        pid_file="/run/user/1000/aisb/r/1a2b3c4d/pid",
        command=("npm", "test", "--", "-x"),
        limits=(("memory", "8g"), ("ulimit", "nofile=1024")),
    )
    return view._replace(**changes)  # type: ignore[arg-type]  # each test names fields of the view


def test_a_sandbox_has_every_protection_on_its_command_line() -> None:
    session = "/run/user/1000/aisb/r/1a2b3c4d"

    assert sandbox_argv(make_view()) == (
        "/usr/bin/setpriv", "--pdeathsig", "TERM", "--",
        "/usr/bin/podman", "run", "--rm",
        "--name", "aisb-run-1a2b3c4d",
        "--pidfile", f"{session}/pid",
        "--hostname", "sandbox",
        "--pull=never",
        "--network", "none",
        "--no-hosts",
        "--http-proxy=false",
        "--log-driver", "none",
        "--detach-keys=",
        "--systemd=false",
        "--unsetenv-all",
        "--image-volume=ignore",
        "--pid", "private", "--ipc", "private", "--uts", "private", "--cgroupns", "private",
        "--userns", "keep-id:uid=1000,gid=1000",
        "--user", "0",
        "--cap-drop", "all",
        "--cap-add=NET_ADMIN", "--cap-add=SETGID", "--cap-add=SETPCAP", "--cap-add=SETUID",
        "--security-opt", "no-new-privileges",
        "--security-opt", f"seccomp={session}/seccomp.json",
        "--security-opt", "label=disable",
        "--sysctl", "net.ipv4.ip_unprivileged_port_start=0",
        "--sysctl", "net.ipv4.tcp_congestion_control=reno",
        "--preserve-fds", "2",
        "--memory=8g", "--ulimit=nofile=1024",
        "--label=aisb.role=sandbox",
        f"--mount=type=bind,src={session}/run,dst=/run/aisb,ro",
        f"--mount=type=bind,src={session}/s,dst=/run/aisb/gate,ro",
        f"--mount=type=bind,src={session}/run/passwd,dst=/etc/passwd,ro",
        f"--mount=type=bind,src={session}/run/group,dst=/etc/group,ro",
        f"--mount=type=bind,src={session}/run/hosts,dst=/etc/hosts,ro",
        f"--mount=type=bind,src={session}/run/resolv.conf,dst=/etc/resolv.conf,ro",
        "--mount=type=volume,src=aisb-home-x-123456,dst=/home/sandbox",
        '--mount=type=bind,"src=/home/u/a,b",dst=/project',
        '--mount=type=bind,"src=/home/u/a,b/.ai-sandbox",dst=/project/.ai-sandbox,ro',
        "--workdir", "/project",
        "--interactive",
        "localhost/aisb-sandbox:0123456789abcdef",
        "npm", "test", "--", "-x",
    )  # fmt: skip


def test_a_terminal_is_asked_for_only_where_there_is_one() -> None:
    assert set(sandbox_argv(make_view(terminal=True))) - set(sandbox_argv(make_view())) == {"--tty"}


def test_what_is_not_there_is_not_mounted() -> None:
    """A project without `.ai-sandbox` gets none on the host, and what an agent writes there nobody has trusted."""
    assert project_mounts("/p", "/project", policy_directory=False) == (Mount("/p", "/project", read_only=False),)
    assert project_mounts("", "/project", policy_directory=True) == ()


def test_a_sandbox_without_relay_keeps_the_resolver_that_podman_gives_it() -> None:
    own, podmans = session_mounts("/s", None), session_mounts("/s", None, own_resolver=False)

    assert set(own) - set(podmans) == {Mount("/s/resolv.conf", "/etc/resolv.conf", read_only=True)}


paths = st.text(alphabet=st.characters(exclude_characters="\0\n\r", exclude_categories=("Cs",)), min_size=1)


@given(paths)
def test_no_path_can_add_a_mount_option(path: str) -> None:
    option = Mount(f"/{path}", "/project", read_only=True).option()

    assert next(csv.reader([option])) == ["type=bind", f"src=/{path}", "dst=/project", "ro"]


@given(st.lists(st.text(alphabet=st.characters(exclude_characters="\0")), min_size=1))
def test_the_command_is_the_end_of_the_line_byte_for_byte(command: list[str]) -> None:
    argv = sandbox_argv(make_view(command=tuple(command)))

    assert argv[-len(command) :] == tuple(command)
