"""One run, from a plan to an exit code."""

from __future__ import annotations

import contextlib
import hashlib
import os
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.net import FULL, PINNED
from aisb.domain.project import directories_around
from aisb.domain.trust import PROJECT_DIRECTORY
from aisb.effects.gate import Gate, GatePlan, close_run, drop_own_gates, end_gate, need_gate, open_run
from aisb.effects.guardian import Measures, guardian, kill_first_process
from aisb.effects.host_ports import host_doors
from aisb.effects.process import Command, run_ok
from aisb.effects.records import ABOUT, Kept, about, keep_record, read_lines
from aisb.effects.session import (
    Session,
    claimed,
    close_session,
    living,
    new_run_id,
    open_session,
    orphans,
    session_at,
    this_process,
)
from aisb.effects.signals import held, let_through
from aisb.effects.state import make_private, read_if_there, write_whole
from aisb.effects.supervise import Outcome, Wiring, run_attached, sealed
from aisb.errors import AisbError, CommandError, Unprotected
from aisb.render.argv import (
    HOME_TARGET,
    PROJECT_TARGET,
    Mount,
    SandboxView,
    container_name,
    project_mounts,
    sandbox_argv,
    session_mounts,
)
from aisb.render.gate import NETWORKS, GateView, gate_argv
from aisb.render.identity import environment_block

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from aisb.effects.plan import Plan
    from aisb.effects.process import Runner
    from aisb.effects.state import Directories

_REMOVE_SECONDS = 30
# As gate/runs.py reads it.
ORIGINS = "origins.json"
# A gate answers in 0.2 s, the time in which squid's last words come. The guardian has promised to be quick.
_CLOSE_SECONDS = 5.0
_GUARDIAN_SECONDS = 1.0


class Job(NamedTuple):
    """
    What a run needs besides its plan.

    `policy_directory` is device and inode of the project's `.ai-sandbox`, "" where there was none.
    """

    podman: str
    network: str
    gate_network: str
    directories: Directories
    project: str
    policy_directory: str
    home_volume: str
    command: tuple[str, ...]
    environment: Mapping[bytes, bytes]
    stdin: bool
    terminal: bool
    # User and password for the proxy, encoded: for the gate alone.
    login: str = ""


class Ended(NamedTuple):
    """How a run ended, and what its gate wrote down."""

    outcome: Outcome
    audit: tuple[str, ...]
    # Why the record could not be kept, "" where it was.
    fault: str = ""


def mounts_of(job: Job, session: Session, net: str) -> tuple[Mount, ...]:
    """All mounts of a run: aisb's own, the home, and the project."""
    project = project_mounts(job.project, policy_directory=bool(job.policy_directory))
    own = session_mounts(session.files, session.sockets if net == "allow" else None, own_resolver=net != FULL)
    return (*own, Mount(job.home_volume, HOME_TARGET, read_only=False), *project)


def view_of(job: Job, plan: Plan, session: Session, labels: tuple[tuple[str, str], ...]) -> SandboxView:
    """What podman's argv is made of."""
    return SandboxView(
        podman=job.podman,
        run=session.run,
        image=plan.sandbox_image,
        network=NETWORKS[job.network] if plan.net in (FULL, PINNED) else "none",
        seccomp=f"{session.path}/seccomp.json",
        workdir=PROJECT_TARGET if job.project else HOME_TARGET,
        mounts=mounts_of(job, session, plan.net),
        labels=labels,
        stdin=job.stdin,
        terminal=job.terminal,
        pid_file=session.pid_file,
        command=job.command,
    )


def run_job(job: Job, plan: Plan, runner: Runner, on_ready: Callable[[Gate | None], None]) -> Ended:
    """Run the command to its end. `on_ready` is called with the gate just before the sandbox starts."""
    need_home(job, runner)
    make_private(job.directories.runtime)
    run = new_run_id()
    with _gate(plan, job, run, runner) as gate:
        parent = f"{gate.directory}/r" if gate else f"{job.directories.runtime}/r"
        sweep(parent, job, gate, runner)
        files = plan.session_files | identities(job)
        session = session_at(parent, run)
        remove = partial(_remove, remove_command(job.podman, session.run), runner)
        tidy = partial(_tidy, gate, session, job.directories.state)
        kill = partial(kill_first_process, session.pid_file)
        with held(), guardian(Measures(kill, remove, partial(tidy, seconds=_GUARDIAN_SECONDS))) as descriptor:
            open_session(parent, session.run, files, plan.seccomp, own_files(job, plan, session.run))
            with host_doors(session, plan.host_ports):
                with let_through():
                    need_own_cover(job, session)
                    if gate:
                        open_run(gate, session.run)
                    on_ready(gate)
                outcome = _attached(job, plan, session, gate, runner, descriptor, remove)
            kept = tidy()
            return Ended(outcome, kept.lines or tuple(read_lines(kept.path) if kept.path else ()), kept.fault)


def _attached(
    job: Job,
    plan: Plan,
    session: Session,
    gate: Gate | None,
    runner: Runner,
    descriptor: int,
    remove: Callable[[], None],
) -> Outcome:
    labels = run_labels(session.run, job.project, gate.key if gate else "")
    variables = sealed(environment_block(job.environment))
    lock = gate.lock if gate else None
    try:
        argv = sandbox_argv(view_of(job, plan, session, labels))
        runner.announce(argv)
        wiring = Wiring(variables, descriptor, lock, session.pid_file, job.terminal)
        return run_attached(argv, wiring, remove, _prepare_the_end)
    finally:
        os.close(variables)


def _prepare_the_end() -> None:
    """Import what the end of a run needs, while its sandbox starts: its caller would wait for it later."""
    import aisb.render.denials  # noqa: F401


def _remove(command: Command, runner: Runner) -> None:
    with contextlib.suppress(AisbError):
        runner.run(command)


@contextlib.contextmanager
def _gate(plan: Plan, job: Job, run: str, runner: Runner) -> Iterator[Gate | None]:
    if plan.net != "allow":
        yield None
        return
    gate_plan = gate_plan_of(job, plan, run)

    def argv(directory: str) -> tuple[str, ...]:
        return gate_argv(gate_view(job, gate_plan, directory))

    # Those of runs whose aisb was killed.
    drop_own_gates(job.directories.runtime, lambda parent: sweep(parent, job, None, runner))
    gate = need_gate(gate_plan, job.directories.runtime, runner, argv)
    try:
        yield gate
    finally:
        if gate_plan.owner:
            end_gate(gate_plan, gate, runner, job.podman)
        else:
            os.close(gate.lock)


def gate_plan_of(job: Job, plan: Plan, run: str) -> GatePlan:
    """The gate of a run: one that is shared by all that want the same, or its own where it holds a password."""
    if not plan.own_gate:
        return GatePlan(plan.gate_key, plan.gate_image, plan.gate_files)
    key = hashlib.sha256(f"{plan.gate_key} {run}".encode()).hexdigest()
    return GatePlan(key, plan.gate_image, plan.gate_files, run, job.login)


def sweep(parent: str, job: Job, gate: Gate | None, runner: Runner) -> None:
    """Take away what runs left behind whose aisb and guardian were both killed."""
    for session in orphans(parent):
        _remove(remove_command(job.podman, session.run), runner)
        _tidy(gate, session, job.directories.state)


def own_files(job: Job, plan: Plan, run: str) -> dict[str, str]:
    """What the record of a run needs to know and its sandbox need not."""
    return {ABOUT: about(run, job.project), ORIGINS: plan.origins} if plan.origins else {}


def identities(job: Job) -> dict[str, str]:
    """What the launcher compares the mounted directories with, by the names of its files."""
    return {"project": project_identity(job.project), "policy-directory": job.policy_directory}


def need_own_cover(job: Job, session: Session) -> None:
    """
    Raise Unprotected where an agent could replace the project's `.ai-sandbox` while it is mounted here.

    One that was started with it cannot: there it is a mount, and read-only. One that runs since before it was there, or
    whose project holds this one, could; and a link that it put there at the right moment would lay its own files over
    this sandbox's programs.
    """
    if not job.policy_directory:
        return
    mine = project_identity(job.project).encode()
    around = {project_identity(place).encode() for place in directories_around(job.project)}
    for other in living(job.directories.runtime):
        theirs = read_if_there(f"{other.files}/project") if other.run != session.run else None
        bare = theirs == mine and not read_if_there(f"{other.files}/policy-directory")
        if bare or theirs in around:
            why = f"began before it had a {PROJECT_DIRECTORY}" if bare else "has it in a larger project"
            raise Unprotected(
                f"run {other.run} of this project {why}: its agent can replace it",
                hint=f"end that run first, or move {PROJECT_DIRECTORY} away until then",
            )


def project_identity(project: str) -> str:
    """
    Device and inode of the project's directory, for the launcher to compare; "" without a project.

    Whoever replaces the directory after this look, by a link for example, is found out before the command runs.
    """
    if not project:
        return ""
    status = os.lstat(project)
    return f"{status.st_dev} {status.st_ino}\n"


def gate_view(job: Job, plan: GatePlan, directory: str) -> GateView:
    """What the argv of the run's gate is made of."""
    return GateView(job.podman, plan.image, plan.key, job.gate_network, directory, plan.owner)


def remove_command(podman: str, run: str) -> Command:
    """Take a run's container away, whatever state it is in."""
    return Command(
        argv=(podman, "rm", "--force", "--time", "0", "--ignore", container_name(run)),
        timeout_seconds=_REMOVE_SECONDS,
    )


def run_labels(run: str, project: str, gate: str) -> tuple[tuple[str, str], ...]:
    """What says that a container is ours, and whose."""
    return (
        ("aisb.role", "sandbox"),
        ("aisb.run", run),
        ("aisb.project", "".join(char if char.isprintable() else "?" for char in project)),
        ("aisb.gate", gate),
        ("aisb.owner", this_process()),
    )


def need_home(job: Job, runner: Runner) -> None:
    """The home volume, made with our labels at a project's first run; a stamp spares the question later."""
    stamp = f"{job.directories.state}/homes/{job.home_volume}"
    if os.path.exists(stamp):
        return
    if not _has_home(job, runner):
        _make_home(job, runner)
    make_private(os.path.dirname(stamp))
    write_whole(stamp, job.project.encode("utf-8", "surrogateescape"))


def _has_home(job: Job, runner: Runner) -> bool:
    exists = Command(argv=(job.podman, "volume", "exists", job.home_volume), timeout_seconds=30, ok=frozenset({0, 1}))
    return run_ok(runner, exists).code == 0


def _make_home(job: Job, runner: Runner) -> None:
    try:
        run_ok(runner, Command(argv=home_argv(job.podman, job.home_volume), timeout_seconds=30))
    except CommandError:
        # Another run of the project may have made it since we looked: podman calls that an error.
        if not _has_home(job, runner):
            raise


def home_argv(podman: str, volume: str) -> tuple[str, ...]:
    """The command that makes a home volume."""
    return (podman, "volume", "create", "--label", "aisb.role=home", volume)


def _tidy(gate: Gate | None, session: Session, state: str, seconds: float = _CLOSE_SECONDS) -> Kept:
    """
    Take away what a run has left on the host, but for its record.

    The gate closes the run first, and what it wrote down is moved to the run's record.
    """
    with claimed(session) as mine:
        if not mine:
            return Kept()
        if gate is not None:
            # A gate that died meanwhile has written what it could.
            with contextlib.suppress(AisbError):
                close_run(gate, session.run, seconds)
        kept = keep_record(session, state)
        close_session(session)
        return kept
