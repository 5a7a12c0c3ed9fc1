"""Where what closes the sandbox cannot be put in place, nothing runs: exit 77 before the command's first instruction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.e2e.sandbox import Case, inside, outside, run_cases

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.e2e.lab import Lab

ALLOW = "--allow=allowed.test"
NONE = "--net=none"
FULL = "--net=full"
TOUCH = ("--", "touch", "/project/ran")

# --- a program in the image is broken -------------------------------------------------------------

# The programs that the entrypoint starts as root become links into the project: each case brings its own.
MAKE_FAULTY_IMAGE = r"""
image=$(aisb --net none --dry-run -- true | grep -o 'localhost/aisb-sandbox:[0-9a-f]*')
name=localhost/aisb-test-faults:${image#*:}
if ! podman image exists $name; then
    old=$(podman images -q localhost/aisb-test-faults)
    [ -z "$old" ] || podman rmi -f $old >/dev/null
    podman build -q --network none -t $name - >/dev/null <<END
FROM $image
USER 0
RUN for file in /usr/sbin/nft /usr/sbin/ip /usr/bin/setpriv; do \
        mv \$file \$file.real; ln -s /project/\${file##*/} \$file; done
END
fi
podman run --rm --network none --userns keep-id:uid=1000,gid=1000 --user 0 --entrypoint /bin/true $name || exit
echo $name
"""
WORKING = {
    name: f'#!/bin/sh\nexec {path}.real "$@"\n'
    for name, path in (("nft", "/usr/sbin/nft"), ("ip", "/usr/sbin/ip"), ("setpriv", "/usr/bin/setpriv"))
}
FAILS = "#!/bin/sh\nexit 1\n"
DOES_NOTHING = "#!/bin/sh\n"


def nft_of(chain: str) -> str:
    """An nft that loads one chain of the ruleset and says that all is well."""
    return (
        "#!/bin/sh\n"
        f"sed -n '/^table/p;/chain {chain} /,/^\\t}}/p;/^}}/p' /run/aisb/sandbox.nft | /usr/sbin/nft.real -f -\n"
    )


def setpriv_with(options: str) -> str:
    """A setpriv that drops what these options say; the relay's is as it should be."""
    return (
        '#!/bin/sh\ncase $* in *gate.relay*) exec /usr/bin/setpriv.real "$@" ;; esac\n'
        'while [ "$1" != -- ]; do shift; done\n'
        f'exec /usr/bin/setpriv.real {options} "$@"\n'
    )


NO_RULES = "the network rules could not be loaded"
TO_NOBODY = "--reuid=1000 --regid=1000 --inh-caps=-all --no-new-privs"
BROKEN: dict[str, tuple[str, Mapping[str, str | None], str]] = {
    "nft fails": (ALLOW, {"nft": FAILS}, NO_RULES),
    "nft is not there": (ALLOW, {"nft": None}, NO_RULES),
    "nft loads nothing": (ALLOW, {"nft": DOES_NOTHING}, "the resolver: Connection refused"),
    "nft loads what redirects": (
        ALLOW,
        {"nft": nft_of("steer")},
        "a datagram to 192.0.2.1 port 443, which the rules should refuse: Connection refused",
    ),
    "nft loads what refuses": (ALLOW, {"nft": nft_of("guard")}, "the resolver: Operation not permitted"),
    "nft fails in a closed sandbox": (NONE, {"nft": FAILS}, NO_RULES),
    "nft is not there in a closed sandbox": (NONE, {"nft": None}, NO_RULES),
    "nft fails in an open sandbox": (FULL, {"nft": FAILS}, NO_RULES),
    "ip fails": (ALLOW, {"ip": FAILS}, "the routes could not be set"),
    "ip sets nothing": (ALLOW, {"ip": DOES_NOTHING}, "the resolver: Network is unreachable"),
    "root is kept": (NONE, {"setpriv": setpriv_with("")}, "after the drop Uid is '0\\t0\\t0\\t0'"),
    "a group is kept": (
        NONE,
        {"setpriv": setpriv_with(f"{TO_NOBODY} --bounding-set=-all --groups=1000")},
        "after the drop Groups is '1000'",
    ),
    "the bound is kept": (
        NONE,
        {"setpriv": setpriv_with(f"{TO_NOBODY} --clear-groups")},
        "after the drop CapBnd is '00000000000011c0'",
    ),
}


def with_image(image: str, flags: str, programs: Mapping[str, str | None]) -> Case:
    """aisb with the image whose programs are links into the project."""
    files: dict[str, str | None] = {f"project/{name}": text for name, text in {**WORKING, **programs}.items()}
    argv = ("sh", "-c", 'exec python3 ~/with_image.py "$@"', "sh", image, "-q", flags, *TOUCH)
    return Case(argv, {**files, "with_image.py": outside("with_image")})


def test_where_a_program_in_the_image_is_broken_nothing_runs(lab: Lab) -> None:
    """A53, A54, C37: nft, ip or setpriv fails, is not there, does half of it, or does nothing and says that it did."""
    made = lab.run(MAKE_FAULTY_IMAGE, timeout=300)
    assert made.code == 0, made.errors
    image = made.text.split()[-1]

    whole, *broken = run_cases(
        lab,
        [with_image(image, ALLOW, {}), *(with_image(image, flags, programs) for flags, programs, _ in BROKEN.values())],
    )

    assert whole == (0, "", "", ["ran"])
    assert {name: (ended.code, ended.refusal, ended.new) for name, ended in zip(BROKEN, broken, strict=True)} == {
        name: (77, reason, []) for name, (_, _, reason) in BROKEN.items()
    }


# --- podman does something else than it was asked for ---------------------------------------------

CHANGED_BY_RUNTIME = {
    "config['process']['env'].append('LEAK=1')": "the variable LEAK is in the entrypoint's environment",
    "config['process']['env'].append('BASH_ENV=/project/x')": "the variable BASH_ENV is in the entrypoint's environment",
    "config['process']['noNewPrivileges'] = False": "new privileges are not ruled out",
    "del config['linux']['seccomp']": "no system calls are filtered",
    "for kind in 'bounding', 'effective', 'permitted': capabilities[kind].remove('CAP_NET_ADMIN')": (
        "the capabilities are 00000000000001c0"
    ),
    "for kind in 'bounding', 'effective', 'permitted': capabilities[kind].append('CAP_SYS_ADMIN')": (
        "the capabilities are 00000000002011c0"
    ),
    "capabilities['bounding'].append('CAP_SYS_ADMIN')": "the capability bound is 00000000002011c0",
    "config['mounts'].append({'destination': '/mnt', 'source': '/etc', 'type': 'bind', 'options': ['rbind']})": (
        "something is mounted at /mnt that aisb did not ask for"
    ),
    "config['mounts'] = [mount for mount in config['mounts'] if mount['destination'] != '/etc/resolv.conf']": (
        "nothing is mounted at /etc/resolv.conf"
    ),
}
CHANGED_BY_SETTINGS = {
    '[containers]\nvolumes = ["/etc:/mnt"]': "something is mounted at /mnt that aisb did not ask for",
}
RUNTIME = '[engine]\nruntime = "changed"\n[engine.runtimes]\nchanged = ["HOME/rt/runtime"]\n'
SETTINGS = ".config/containers/containers.conf"
RUN = ("sh", "-c", 'sed -i "s|HOME|$HOME|" ~/.config/containers/*.conf; exec aisb -q --net none -- touch /project/ran')


def changed_by_runtime(change: str) -> Case:
    """A runtime that changes what podman asked it for."""
    text = f"capabilities = config['process']['capabilities']\n{change}\n"
    return Case(RUN, {"rt/runtime": outside("runtime"), "rt/change": text, SETTINGS: RUNTIME})


def test_what_was_not_asked_for_is_found_and_named(lab: Lab) -> None:
    """A54: a variable, a mount, a capability or a missing filter, by whatever is between aisb and the sandbox."""
    cases = {change: changed_by_runtime(change) for change in CHANGED_BY_RUNTIME}
    cases |= {text: Case(RUN, {SETTINGS: text}) for text in CHANGED_BY_SETTINGS}
    cases["mounts.conf"] = Case(RUN, {".config/containers/mounts.conf": "HOME/key:/mnt/secret\n", "key/x": "x"})

    unchanged, *changed = run_cases(lab, [changed_by_runtime(""), *cases.values()])

    assert unchanged == (0, "", "", ["ran"])
    assert {name: (ended.code, ended.refusal, ended.new) for name, ended in zip(cases, changed, strict=True)} == {
        name: (77, reason, [])
        for name, reason in {
            **CHANGED_BY_RUNTIME,
            **CHANGED_BY_SETTINGS,
            "mounts.conf": "something is mounted at /mnt/secret that aisb did not ask for",
        }.items()
    }


def test_a_variable_of_podmans_settings_does_not_reach_the_sandbox(lab: Lab) -> None:
    """podman is told to set none of its own; one that came all the same would be found and named, as above."""
    look = ("sh", "-c", "exec aisb -q --net none -- sh -c 'env | grep LEAK || touch /project/ran'")

    assert run_cases(lab, [Case(look, {SETTINGS: '[containers]\nenv = ["LEAK=1"]\n'})]) == [(0, "", "", ["ran"])]


NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
ALL_OF_THE_HOST = """[containers]
pidns = "host"
ipcns = "host"
utsns = "host"
cgroupns = "host"
netns = "host"
userns = "host"
"""


def test_settings_cannot_give_the_sandbox_the_hosts_namespaces(lab: Lab) -> None:
    """With the host's processes in sight, whatever runs as the caller could read their memory and their files."""
    look = ("readlink", *(f"/proc/self/ns/{kind}" for kind in NAMESPACES))

    of_host, of_sandbox = run_cases(
        lab, [Case(look), Case(("aisb", "-q", NONE, "--", *look), {SETTINGS: ALL_OF_THE_HOST})]
    )

    assert (of_sandbox.code, len(of_sandbox.stdout.split())) == (0, len(NAMESPACES))
    assert set(of_sandbox.stdout.split()) & set(of_host.stdout.split()) == set()


# --- what the command's own variables and files can do --------------------------------------------

PLANTED = """
aisb -q --net none -- sh || exit
export BASH_ENV=/project/x.sh ENV=/project/x.sh LD_PRELOAD=/project/x.so LD_LIBRARY_PATH=/project PYTHONPATH=/project \
    GCONV_PATH=/project/gconv IFS=/ PATH=/project/bin:/usr/bin AISB_UID=0 CDPATH=/project SHELLOPTS=xtrace PS4='$(x)'
/home/aisb-lab/venv/bin/aisb -q --allow allowed.test --env BASH_ENV --env ENV --env LD_PRELOAD --env LD_LIBRARY_PATH \
    --env PYTHONPATH --env GCONV_PATH --env IFS --env PATH --env AISB_UID --env CDPATH --env PS4 \
    -- bash -c 'python3 -c pass; iconv -f UTF-7 </dev/null' >&2
code=$?
/usr/bin/sort -u noted
exit $code
"""


def test_variables_act_after_the_drop_only(lab: Lab) -> None:
    """A50: BASH_ENV, LD_PRELOAD, PATH and the like are the user's to set; no code of theirs runs as root."""
    result = lab.run(PLANTED, stdin=inside("plant", "sh").encode())

    assert (result.code, result.text.splitlines()) == (
        0,
        [f"{name} 1000 {'0' * 16}" for name in ("bin", "sitecustomize.py", "usercustomize.py", "x.sh", "x.so")],
    )


def test_root_is_refused_and_no_variable_brings_it_back(lab: Lab) -> None:
    """A53: as root there is nothing to drop to; a variable that names a uid is the command's, like any other."""
    run = ("aisb", "-q", NONE, "--env=AISB_UID", "--", "sh", "-c", "id -u; echo $AISB_UID; touch /project/ran")

    as_root, as_user = run_cases(
        lab, [Case(argv, variables={"AISB_UID": "0"}) for argv in (("podman", "unshare", *run), run)]
    )

    assert as_user == (0, "1000\n0\n", "", ["ran"])
    assert as_root == (
        69,
        "",
        "aisb: aisb does not run as root\naisb:   run it as an ordinary user; it needs no privilege\n",
        [],
    )
