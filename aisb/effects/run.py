"""One run, from a plan to an exit code."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from aisb.domain.file_changes import FileReport
from aisb.domain.net import FULL, PINNED
from aisb.domain.project import EPHEMERAL_HOME
from aisb.domain.protected import DIRECTORY, Cover
from aisb.domain.run_record import Keep
from aisb.domain.trust import PROJECT_DIRECTORY
from aisb.effects.gate import Gate, GatePlan, close_run, drop_own_gates, end_gate, need_gate, open_run
from aisb.effects.gate_watch import gate_watched
from aisb.effects.guard import ROOTS, Guard, Root, guarded, need_own_covers, roots_of
from aisb.effects.guardian import Measures, guardian, kill_first_process
from aisb.effects.home_lock import Hold, below_home, home_held
from aisb.effects.host_ports import host_doors
from aisb.effects.process import Command, run_ok
from aisb.effects.records import Kept, keep_record, read_lines
from aisb.effects.run_record import ABOUT, RunRecord, end_of, mend, new_fields, on_record, tell_of_killed
from aisb.effects.sealed import sealed
from aisb.effects.session import (
    Session,
    claimed,
    close_session,
    lend_variables,
    new_run_id,
    open_session,
    orphans,
    session_at,
    this_process,
)
from aisb.effects.shield import Wishes
from aisb.effects.signals import held, let_through
from aisb.effects.state import make_private, write_whole
from aisb.effects.supervise import EXEC, Outcome, Wiring, run_attached
from aisb.effects.watch import Watch
from aisb.errors import AisbError, CommandError
from aisb.render.argv import (
    EMPTY_FILE,
    GIT_CONFIG,
    HOME_TARGET,
    IDENTITY_FILES,
    PROJECT_TARGET,
    SCRATCH_TARGETS,
    Mount,
    SandboxView,
    container_name,
    cover_lines,
    cover_mounts,
    mount_targets,
    policy_target,
    project_mounts,
    sandbox_argv,
    session_mounts,
)
from aisb.render.gate import NETWORKS, GateView, gate_argv
from aisb.render.identity import environment_block

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from aisb.domain.limits import Limit
    from aisb.domain.publish import Published
    from aisb.effects.mounts import Placed
    from aisb.effects.plan import Plan
    from aisb.effects.process import Runner
    from aisb.effects.shield import Shield
    from aisb.effects.state import Directories

_REMOVE_SECONDS = 30
# As gate/runs.py reads it.
ORIGINS = "origins.json"
# A gate answers in 0.2 s, the time in which squid's last words come. The guardian has promised to be quick.
_CLOSE_SECONDS = 5.0
# A command that is not there, or a podman that has lost the code of one that was.
_LOST = 127
_GUARDIAN_SECONDS = 1.0
# What watched over a container ends a moment after it, and with it what it held.
_LET_GO_SECONDS = 5.0


class Streams(Protocol):
    """Who speaks with the command of a sandbox; `name` is what the run is known as while it lasts."""

    name: str

    def lend(self, session: Session) -> tuple[int, int]:
        """Stdin and stdout of the sandbox of that run, which is about to begin."""

    def is_to_end(self) -> None:
        """Somebody has said so, whatever the sandbox still says."""

    def gate_has_ended(self, words: str) -> None:
        """The sandbox goes on, without a network."""

    def is_over(self) -> bool:
        """Whether they have left, or were sent away."""


class Job(NamedTuple):
    """
    What a run needs besides its plan.

    `policy_directory` is device and inode of the project's `.ai-sandbox`, "" where there was none. `limits` are the
    caps that this host can keep.
    """

    podman: str
    network: str
    gate_network: str
    directories: Directories
    project: str
    policy_directory: str
    wishes: Wishes
    home_volume: str
    command: tuple[str, ...]
    environment: Mapping[bytes, bytes]
    stdin: bool
    terminal: bool
    # User and password for the proxy, encoded: for the gate alone.
    login: str = ""
    # What the run's gate puts into requests: for the gate alone too.
    secrets: bytes = b""
    limits: tuple[Limit, ...] = ()
    timeout_seconds: int = 0
    # The signal that has the command end.
    ended_by: int = signal.SIGTERM
    # What else is mounted, and whether the image is read-only.
    places: tuple[Placed, ...] = ()
    read_only: bool = False
    # What the launcher puts into the home: its path from there on, and its text.
    seeds: Mapping[str, str] = {}
    # Where the project is inside.
    target: str = PROJECT_TARGET
    # Who speaks with the command, in the place of our stdin and stdout.
    service: Streams | None = None
    # What of the sandbox can be reached from this machine.
    publish: tuple[Published, ...] = ()
    # Who is to be told the run's id when its command begins.
    on_begin: Callable[[str], None] | None = None
    # How long the records of runs are kept.
    keep: Keep = Keep()
    # Of the images that were built for this run.
    build_logs: Sequence[str] = ()


class Ended(NamedTuple):
    """How a run ended, and what its gate wrote down."""

    outcome: Outcome
    audit: tuple[str, ...]
    # Why the record could not be kept, "" where it was.
    fault: str = ""
    # What became of what the host may run.
    files: FileReport = FileReport()
    # That the gate had ended before, where it had.
    lost: tuple[str, ...] = ()


def mounts_of(job: Job, session: Session, net: str, shield: Shield) -> tuple[Mount, ...]:
    """All mounts of a run: aisb's own, the home, the project, and in it what is protected and what is masked."""
    project = project_mounts(job.project, job.target, policy_directory=bool(job.policy_directory))
    own = session_mounts(session.files, session.sockets if net == "allow" else None, own_resolver=net != FULL)
    places = (Mount(place.source, place.target, place.read_only) for place in job.places)
    covers = cover_mounts((*shield.covers, *shield.masks), session.files)
    return (*own, Mount(job.home_volume, HOME_TARGET, read_only=False), *project, *places, *covers)


def view_of(job: Job, plan: Plan, session: Session, labels: tuple[tuple[str, str], ...], shield: Shield) -> SandboxView:
    """What podman's argv is made of."""
    return SandboxView(
        podman=job.podman,
        run=session.run,
        image=plan.sandbox_image,
        network=NETWORKS[job.network] if plan.net in (FULL, PINNED) else "none",
        seccomp=f"{session.path}/seccomp.json",
        workdir=job.target if job.project else HOME_TARGET,
        mounts=mounts_of(job, session, plan.net, shield),
        labels=labels,
        stdin=job.stdin,
        terminal=job.terminal,
        pid_file=session.pid_file,
        command=job.command,
        limits=tuple((limit.name, limit.value) for limit in job.limits),
        read_only=job.read_only,
    )


def run_job(
    job: Job,
    plan: Plan,
    runner: Runner,
    on_ready: Callable[[Gate | None, Shield], None],
    on_change: Callable[[str], None],
) -> Ended:
    """
    Run the command to its end. `on_ready` is called with the gate just before the sandbox starts.

    `on_change` is told, from another thread, when what the host may run has changed meanwhile, or the gate has ended.
    """
    need_home(job, runner)
    make_private(job.directories.runtime)
    record = record_of(job, plan, new_run_id())
    with (
        on_record(record),
        _gate(plan, job, record.run, runner) as gate,
        _guarded(job, gate, runner) as guard,
        _home(job, plan.sandbox_image, runner) as home,
    ):
        parent = _parent(job, gate)
        session = session_at(parent, record.run)
        remove = partial(_remove, remove_command(job.podman, session.run), runner)
        tidy = partial(_tidy, gate, session, job)
        kill = partial(kill_first_process, session.pid_file)
        tell = partial(tell_of_killed, job.directories.state, session.run)
        # Nobody is there then to whom it could be said, and the next run takes what it finds for what was there.
        report = partial(_compare, job, session.run, guard.shield, None, tell)
        last = partial(_tidy_for_us, partial(tidy, seconds=_GUARDIAN_SECONDS, is_ours=False), report, guard)
        with held(), guardian(Measures(kill, remove, last)) as descriptor:
            files = plan.session_files | run_files(job, session, plan.net, guard.shield)
            open_session(parent, session.run, files, plan.seccomp, own_files(job, plan, record, guard.shield))
            with host_doors(session, plan.host_ports, job.publish):
                with let_through():
                    need_own_covers(covered_sources(job, guard.shield), session, job.directories.runtime)
                    if gate:
                        open_run(gate, session.run)
                    on_ready(gate, guard.shield)
                watch = Watch(guard.shield, session, runner, on_change)
                wires = _Wires(gate.key if gate else "", gate.lock if gate else None, descriptor, guard.held, home)
                with gate_watched(gate.directory if gate else "", partial(_tell_lost, job, on_change)) as lost:
                    outcome = _attached(job, plan, session, guard.shield, runner, wires, remove, watch)
            record.end(end_of(outcome, has_left=job.service is not None and job.service.is_over()))
            kept = tidy()
            # Imported by now, while the sandbox started.
            changes = _compare(job, session.run, guard.shield, watch, record.tell)
            audit = kept.lines or tuple(read_lines(kept.path) if kept.path else ())
            return Ended(outcome, audit, kept.fault or record.fault, changes, tuple(lost))


def record_of(job: Job, plan: Plan, run: str) -> RunRecord:
    """What is remembered of a run: its policy as it is printed, and what it is made of."""
    gate = gate_plan_of(job, plan, run).short if plan.net == "allow" else None
    command = job.service.name if job.service else job.command[0]
    publish = [item.text() for item in job.publish]
    allows = plan.names + plan.addresses + len(plan.host_ports)
    fields = new_fields(
        run, job.project, command, image=plan.sandbox_image, net=plan.net, gate=gate, allows=allows, publish=publish
    )
    return RunRecord(job.directories.state, fields, plan.policy_lines, job.build_logs)


@contextlib.contextmanager
def _guarded(job: Job, gate: Gate | None, runner: Runner) -> Iterator[Guard]:
    """The shield of the run's project, once nothing is left of runs that were killed."""
    swept = sweep(_parent(job, gate), job, gate, runner)
    patience = _LET_GO_SECONDS if swept else 0
    with guarded(writable_roots(job), job.directories.state, patience) as guard:
        has_policy = bool(job.policy_directory)
        need_sound_places(job.places, guard.shield, job.project, job.target, policy_directory=has_policy)
        yield guard


def need_sound_places(
    places: Sequence[Placed], shield: Shield, project: str, target: str, *, policy_directory: bool
) -> None:
    """
    Raise UsageError where a mount is another way to what is protected or masked, or lies on it.

    `policy_directory`: the project, which is at `target`, has a `.ai-sandbox`.
    """
    if not places:
        return
    from aisb.effects.mounts import need_no_bypass, need_own_targets

    source = f"{project}/{PROJECT_DIRECTORY}"
    policy = Cover(source, policy_target(target), DIRECTORY, read_only=True, identity="")
    kept = [*([policy] if policy_directory else []), *(cover for cover in shield.covers if cover.read_only)]
    need_no_bypass(places, kept, [mask for mask in shield.masks if mask.shown])
    need_own_targets(places, [cover.target for cover in (*shield.covers, *shield.masks) if cover.read_only])


def _parent(job: Job, gate: Gate | None) -> str:
    """Where the directories of runs are that share the gate, or have none."""
    return f"{gate.directory}/r" if gate else f"{job.directories.runtime}/r"


class _Wires(NamedTuple):
    """What podman holds for as long as it lives: the gate's lock, the guardian's pipe, the shield's and the home's."""

    gate_key: str
    lock: int | None
    guardian: int
    shield: tuple[int, ...]
    home: Hold | None


def _tidy_for_us(tidy: Callable[[], object], report: Callable[[], object], guard: Guard) -> None:
    """The guardian's part, when we are gone."""
    try:
        tidy()
        report()
    finally:
        guard.release()


def _compare(
    job: Job, run: str, shield: Shield, watch: Watch | None, tell: Callable[[Sequence[str]], object]
) -> FileReport:
    """What became of a project's files, and of mounted ones; it is told where it is worth a warning."""
    from aisb.effects.file_report import report_of
    from aisb.render.file_report import file_lines, warns

    # With copies of what was there.
    report = report_of(job.project, shield, watch, f"{job.directories.state}/before/{run}")
    if warns(report):
        tell(file_lines(report, job.project))
    return report


def _attached(
    job: Job,
    plan: Plan,
    session: Session,
    shield: Shield,
    runner: Runner,
    wires: _Wires,
    remove: Callable[[], None],
    watch: Watch,
) -> Outcome:
    labels = run_labels(session.run, job.project, wires.gate_key)
    variables = sealed(environment_block(job.environment))
    # For later commands of this run, which have them too.
    lend_variables(session, variables)
    try:
        argv = sandbox_argv(view_of(job, plan, session, labels, shield))
        runner.announce(argv)
        streams = job.service.lend(session) if job.service else None
        wiring = Wiring(
            variables,
            wires.guardian,
            wires.lock,
            (*wires.shield, *([wires.home.descriptor] if wires.home else [])),
            session.pid_file,
            job.terminal,
            job.timeout_seconds,
            streams,
            partial(_begin, job, session.run, wires.home),
            job.ended_by,
            job.service.is_to_end if job.service else None,
        )
        started = time.monotonic()
        with watch:
            outcome = run_attached(argv, wiring, remove, _prepare_the_end)
        return _with_code(outcome, partial(_recorded, job.podman, session.run, started, runner))
    finally:
        os.close(variables)


def _begin(job: Job, run: str, home: Hold | None) -> None:
    """The command has begun, and all is mounted."""
    if home:
        home.release()
    if job.on_begin:
        job.on_begin(run)


def _tell_lost(job: Job, on_change: Callable[[str], None], words: str) -> None:
    """The person, and the program that the sandbox is lent to."""
    on_change(f"warning: {words}")
    if job.service:
        job.service.gate_has_ended(words)


def _with_code(outcome: Outcome, recorded: Callable[[], int | None]) -> Outcome:
    """The outcome with the command's own code, where podman has lost it."""
    code = recorded() if outcome.status == _LOST and EXEC in outcome.phases else None
    return outcome if code is None else outcome._replace(status=code)


def _recorded(podman: str, run: str, started: float, runner: Runner) -> int | None:
    from aisb.effects.exit_code import recorded_exit_code

    return recorded_exit_code(podman, run, time.monotonic() - started, runner)


def _prepare_the_end() -> None:
    """Import what the end of a run needs, while its sandbox starts: its caller would wait for it later."""
    import aisb.effects.file_report
    import aisb.render.denials
    import aisb.render.file_report  # noqa: F401


def _remove(command: Command, runner: Runner) -> None:
    with contextlib.suppress(AisbError):
        runner.run(command)


@contextlib.contextmanager
def _home(job: Job, image: str, runner: Runner) -> Iterator[Hold | None]:
    """The home's lock, for as long as the run starts; the only one to start, where something is mounted below."""
    if job.home_volume == EPHEMERAL_HOME:
        yield None
        return
    places = below_home(job.places, job.target if job.project else "")
    with home_held(job.directories.runtime, job.home_volume, alone=bool(places)) as hold:
        if places:
            # Few runs have any.
            from aisb.effects.home_places import Home, make_places

            make_places(Home(job.podman, job.home_volume, image), places, job.directories.runtime, runner)
        yield hold


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
    """The gate of a run: one that is shared by all that want the same, or its own where it holds a secret."""
    if not plan.own_gate:
        return GatePlan(plan.gate_key, plan.gate_image, plan.gate_files)
    key = hashlib.sha256(f"{plan.gate_key} {run}".encode()).hexdigest()
    return GatePlan(key, plan.gate_image, plan.gate_files, run, job.login, job.secrets)


def sweep(parent: str, job: Job, gate: Gate | None, runner: Runner) -> bool:
    """Take away what runs left behind whose aisb and guardian were both killed. Returns whether there was something."""
    found = orphans(parent)
    for session in found:
        _remove(remove_command(job.podman, session.run), runner)
        _tidy(gate, session, job, is_ours=False)
    return bool(found)


def own_files(job: Job, plan: Plan, record: RunRecord, shield: Shield) -> dict[str, str]:
    """What the record of a run and other runs need to know and its sandbox need not."""
    writable = [root.source for root in writable_roots(job)]
    roots = {ROOTS: roots_of(writable, covered_sources(job, shield))} if writable else {}
    origins = {ORIGINS: plan.origins} if plan.origins else {}
    return roots | {ABOUT: record.text} | origins


def run_files(job: Job, session: Session, net: str, shield: Shield) -> dict[str, str]:
    """What the entrypoint and the launcher compare their sandbox with, by the names of its files, and an empty one."""
    targets = {mount.target for mount in mounts_of(job, session, net, shield)}
    own = {f"/etc/{name}" for name in IDENTITY_FILES} | set(SCRATCH_TARGETS if job.read_only else ())
    return {
        "mounts": mount_targets(targets | own),
        "project": project_identity(job.project),
        "policy-directory": job.policy_directory,
        "covers": cover_lines(
            [
                *((cover.identity, cover.target) for cover in shield.covers if not cover.shown),
                *((place.identity, place.target) for place in job.places),
            ]
        ),
        EMPTY_FILE: "",
        **_place_of_project(job),
        **_git_config(job),
        **seed_files(job.seeds),
    }


def seed_files(seeds: Mapping[str, str]) -> dict[str, str]:
    """What the launcher finds of them in the session: a list of their places, and each text by its number in that."""
    if not seeds:
        return {}
    return {"seeds": "".join(f"{path}\n" for path in seeds)} | {
        f"seed-{n}": text for n, text in enumerate(seeds.values())
    }


def _place_of_project(job: Job) -> dict[str, str]:
    """Where it is, where that is not where it is for everybody else; and a way there from that place, if one can be."""
    if job.target == PROJECT_TARGET:
        return {}
    link = {} if job.read_only else {"project-link": f"{job.target}\n"}
    return {"project-target": f"{job.target}\n", **link}


def _git_config(job: Job) -> dict[str, str]:
    """What git reads inside in the place of a configuration that would lead it astray there."""
    texts = [place.git.config for place in job.places if place.git is not None]
    return {GIT_CONFIG: texts[0]} if any(texts) else {}


def covered_sources(job: Job, shield: Shield) -> list[str]:
    """What is mounted over itself, and an agent elsewhere must not be able to replace."""
    policy = [f"{job.project}/{PROJECT_DIRECTORY}"] if job.policy_directory else []
    # Of a masked file that lies right in the project nothing of the agent's is mounted; of those around others it is.
    around = (mask.source for mask in shield.masks if mask.kind == DIRECTORY)
    return [*policy, *(cover.source for cover in shield.covers), *around, *_points(job)]


def _points(job: Job) -> list[str]:
    """Where, in the project or in another mount, something is mounted over."""
    outer = [(job.target, job.project)] if job.project else []
    outer += [(place.target, place.source) for place in job.places if place.is_directory]
    return [
        f"{source}/{place.target.removeprefix(target + '/')}"
        for place in job.places
        for target, source in outer
        if place.target.startswith(f"{target}/")
    ]


def writable_roots(job: Job) -> list[Root]:
    """Each directory that can be written inside, the project first."""
    return roots_to_guard(job.project, job.target, job.wishes, job.places)


def roots_to_guard(project: str, target: str, wishes: Wishes, places: Iterable[Placed]) -> list[Root]:
    """
    Each directory that can be written inside, the project first, which is at `target`, "" for none.

    What was wished of paths is for it alone; names of files to mask mean those of every directory.
    """
    own = [Root(project, target, wishes)] if project else []
    others = (place for place in places if _is_root(place, project))
    return [*own, *(Root(place.source, place.target, _wishes_of(place, project, wishes)) for place in others)]


def _wishes_of(place: Placed, project: str, wishes: Wishes) -> Wishes:
    if place.git is not None:
        work_tree = Wishes(default_masks=False, home=wishes.home, work_tree=project)
        return work_tree._replace(has_config=bool(place.git.config))
    names = tuple(pattern for pattern in wishes.masks if "/" not in pattern)
    return wishes._replace(protect=(), unprotect=(), masks=names, named_masks=())


def _is_root(place: Placed, project: str) -> bool:
    return place.is_directory and not place.read_only and not place.source.startswith(f"{project or '/nowhere'}/")


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
    return GateView(job.podman, plan.image, plan.key, job.gate_network, directory, plan.owner, bool(plan.secrets))


def remove_command(podman: str, run: str) -> Command:
    """Take a run's container away, whatever state it is in."""
    return Command(
        # With the home that has no name.
        argv=(podman, "rm", "--force", "--volumes", "--time", "0", "--ignore", container_name(run)),
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
    if job.home_volume == EPHEMERAL_HOME:
        return
    stamp = f"{job.directories.state}/homes/{job.home_volume}"
    if os.path.exists(stamp):
        return
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
        # podman calls it an error where it is there already. To ask first would cost each first run of a project more.
        if not _has_home(job, runner):
            raise


def home_argv(podman: str, volume: str) -> tuple[str, ...]:
    """The command that makes a home volume."""
    return (podman, "volume", "create", "--label", "aisb.role=home", volume)


def _tidy(
    gate: Gate | None, session: Session, job: Job, seconds: float = _CLOSE_SECONDS, *, is_ours: bool = True
) -> Kept:
    """
    Take away what a run has left on the host, but for its record.

    The gate closes the run first, and what it wrote down is moved to the run's record. Where it is not ours to say how
    the run ended, nobody can any more, and the record says that.
    """
    with claimed(session) as mine:
        if not mine:
            return Kept()
        if gate is not None:
            # A gate that died meanwhile has written what it could.
            with contextlib.suppress(AisbError):
                close_run(gate, session.run, seconds)
        kept = keep_record(session, job.directories.state, job.keep)
        if not is_ours:
            mend(job.directories.state, session.run)
        close_session(session)
        return kept
