"""`aisb [run]`: from a command line to the command's exit code."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from aisb.cli.hints import hints_for, nearest_flag, refuse_a_near_miss, strange_variables
from aisb.cli.output import answer, say, write_stderr
from aisb.cli.request import Request, read_login, read_request
from aisb.cli.splitter import first_unknown_flag
from aisb.domain.freshness import parse_freshness
from aisb.domain.harnesses import HARNESSES
from aisb.domain.mounts import check_target
from aisb.domain.net import FULL, PINNED
from aisb.domain.net import NONE as NO_NET
from aisb.domain.options import PREVIEWS
from aisb.domain.project import EPHEMERAL_HOME, SHARED_HOME
from aisb.domain.protected import relative_to
from aisb.domain.variables import values_in_sight, values_of
from aisb.effects.cgroups import unenforced
from aisb.effects.git_identity import git_identity
from aisb.effects.home_files import led_to
from aisb.effects.host import name_servers, need_host, need_network, need_ordinary_user, need_own_home
from aisb.effects.host_ports import need_free_ports
from aisb.effects.imports import need_own_imports_here
from aisb.effects.plan import forget_images, images_of
from aisb.effects.process import SystemRunner, TracingRunner
from aisb.effects.progress import Progress, Silence
from aisb.effects.repositories import user_git_files
from aisb.effects.run import Ended, Job, run_job
from aisb.effects.session import process_start
from aisb.effects.shield import Wishes
from aisb.effects.situation import (
    deciding_directories,
    found_around,
    look_around,
    named_path,
    need_plan,
    pi_directory,
    read_fragment,
    resolve_project,
)
from aisb.effects.sources import Sources, Wish, read_sources
from aisb.effects.state import directories, preview_directories, volumes_directory
from aisb.effects.workshop import Workshop
from aisb.errors import Unavailable, Unprotected, UsageError
from aisb.render.argv import HOME_TARGET, PROJECT_TARGET, policy_target
from aisb.render.identity import command_environment
from aisb.render.lines import (
    StartView,
    learn_lines,
    limit_lines,
    no_gate_lines,
    published_lines,
    start_lines,
    timing_lines,
)
from aisb.render.shield import shield_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aisb.cli.pi import Along
    from aisb.cli.splitter import Split
    from aisb.domain.inject_flag import Injected
    from aisb.domain.pi_values import PiFiles
    from aisb.effects.cgroups import Unenforced
    from aisb.effects.gate import Gate
    from aisb.effects.host import Host
    from aisb.effects.mounts import Placed
    from aisb.effects.plan import Plan, Question
    from aisb.effects.process import Runner
    from aisb.effects.progress import Report
    from aisb.effects.serve import Service
    from aisb.effects.shield import Shield
    from aisb.effects.state import Directories
    from aisb.effects.trust import Asked


class Clock:
    """When each phase of a start was over, in monotonic seconds."""

    def __init__(self) -> None:
        self.marks: list[tuple[str, float]] = [("start", process_start()), ("python", time.monotonic())]

    def mark(self, name: str) -> None:
        """Note that the phase is over."""
        self.marks.append((name, time.monotonic()))


class Done(NamedTuple):
    """A run that has come to its end."""

    job: Job
    plan: Plan
    ended: Ended
    shop: Workshop


def run(
    split: Split,
    verbs: frozenset[str],
    on_project: Callable[[str], None] = lambda _project: None,
    on_end: Callable[[Done], None] = lambda _done: None,
    service: Service | None = None,
    on_begin: Callable[[str], None] | None = None,
) -> int:
    """
    Do what the command line says.

    Of a run, not of a preview: `on_project` is called with the project once it is known and before anything is started,
    `on_end` at the end of the run and before its last words. `service` is who speaks with a tool server, `on_begin`
    who is told the run's id when its command begins.
    """
    clock = Clock()
    asked = read_request(split, os.environ)
    _be_strict(split, asked)
    refuse_a_near_miss(split, verbs, asked.wanted.harness)
    # One that is passed in is the command's, whatever it is called.
    for warning in strange_variables(os.environ.keys() - {item.source for item in asked.given}):
        say(f"warning: {warning}")
    for hint in hints_for(split, verbs, asked.wanted.net):
        say(f"hint: {hint}")
    if asked.has("dry-run") or any(asked.has(f"print-{what}") for what in PREVIEWS):
        from aisb.cli.preview import preview

        return preview(split, asked)
    if asked.has("detach") and on_begin is None:
        from aisb.effects.detach import detached

        return detached(lambda tell: run(split, verbs, on_project, on_end, service, tell), answer)
    need_own_imports_here("")
    need_ordinary_user()
    need_own_home(os.environ)
    need_free_ports(asked.wanted.publish)
    where = directories(os.environ)
    project = resolve_project(asked.project, os.environ, where)
    need_own_imports_here(project)
    on_project(project)
    sources = read_sources(wish_of(asked, project), where, agrees)
    request = read_request(split, os.environ, sources.layers, sources.variables)
    request = without_entries(request, sources)
    _be_strict(split, request)
    for note in request.notes:
        say(note)
    for note in (*values_in_sight(request.given), *found_around(project)) if not request.has("quiet") else ():
        say(f"note: {note}")
    for note in sources.notes:
        say(f"note: {note}")
    runner = TracingRunner(SystemRunner(), say) if request.has("trace") else SystemRunner()
    return _run(request, sources, project, where, runner, clock, Hooks(on_end, service, on_begin))


class Hooks(NamedTuple):
    """What else is to be done: `on_end`, `service` and `on_begin` as `run` has them."""

    on_end: Callable[[Done], None]
    service: Service | None
    on_begin: Callable[[str], None] | None


def without_entries(request: Request, sources: Sources) -> Request:
    """
    The same request; of a served sandbox for which nobody named an entry or a mode, one without a network.

    Its client says which that is: there is no command yet that could not do its work.
    """
    wanted = request.wanted
    is_said = "net" in request.origins or wanted.no_gate or wanted.proxy
    if not request.serves or is_said or wanted.allow or sources.allow_files or sources.policy_files:
        return request
    return request._replace(wanted=wanted._replace(net=NO_NET))


def wish_of(request: Request, project: str) -> Wish:
    """The files that a command line asks for."""
    target = target_of(request, project)
    return Wish(project, request.policy_paths, request.trust_once, request.env_paths, target)


def target_of(request: Request, project: str) -> str:
    """
    Where the project is inside. Who serves calls has it where it is on the host, so that a path means the same.

    Raises UsageError where the sandbox has something else there.
    """
    if not request.serves or not project:
        return PROJECT_TARGET
    check_target(project, "the project's own path", "it is mounted where it is on the host: move it")
    if relative_to(project, PROJECT_TARGET):
        raise UsageError(f"{PROJECT_TARGET} is where every project is inside", hint=f"move {project} elsewhere")
    return project


def agrees(asked: Asked) -> bool:
    """Whether the person at the terminal trusts it; without a terminal nobody does."""
    if not (os.isatty(0) and os.isatty(2)):
        return False
    from aisb.cli.trust import ask

    return ask(asked)


def _be_strict(split: Split, request: Request) -> None:
    flag = first_unknown_flag(split.harness)
    if request.has("strict-args") and flag:
        nearest = nearest_flag(flag)
        hint = f"did you mean {nearest}?" if nearest else "aisb's flags are listed by: aisb run --help"
        raise UsageError(f"{flag} is not a flag of aisb", hint=hint)


def _run(
    request: Request,
    sources: Sources,
    project: str,
    where: Directories,
    runner: Runner,
    clock: Clock,
    hooks: Hooks,
) -> int:
    given = {**identity_of(request, project, where, runner), **values_of(request.given, os.environb)}
    variables, secrets = _with_injections(request, given)
    pi_files = host_pi(request, project)
    login = read_login(request, os.environb)
    named = named_path(request.project or "", project, os.environ)
    host = need_host(where.cache, runner, os.environ.get("PATH", ""), project)
    who = "the sandbox" if request.wanted.no_gate else "the gate"
    network = need_network(host, who) if request.wanted.net != "none" else ""
    _warn_of_slow_storage(host)
    unkept = unkept_limits(request, host)
    clock.mark("host")
    shop = shop_of(request, host, where, runner)
    question = with_proxy(question_of(request, sources, project, network), request)
    plan = need_plan(question, shop)
    along = None
    if pi_files:
        from aisb.cli.pi import take_along

        along = take_along(request, pi_files, plan, question, shop, variables)
        if along.injections:
            question = with_injections(question, along)
            plan = need_plan(question, shop)
            variables, secrets = _with_injections(request, given, along.injections)
        variables = {**variables, **along.variables}
    if plan.net == PINNED:
        plan = _with_pins(plan, runner)
    clock.mark("plan")
    place = Place(project, sources.policy_directory, mounts_of(request, sources, project, where))
    job = job_of(request, plan, where, place, host.podman, network, variables, unkept.names)
    job = job._replace(secrets=secrets, login=login, seeds=along.files if along else {})
    # podman asks where it is, and fails in a directory that is gone. Every path is absolute by now.
    os.chdir("/")

    def on_ready(gate: Gate | None, shield: Shield) -> None:
        clock.mark("gate")
        need_secrets_outside(job, shield)
        if hooks.service:
            hooks.service.describe(hello_of(job, plan, gate, shield))
        _say_start(job, named, plan, gate, quiet=request.has("quiet"))
        has_models = pi_files is not None and pi_files.models is not None
        agents = _agent_lines(request, plan, variables, has_models=has_models)
        notes = (*(along.lines if along else ()), *agents)
        for line in () if request.has("quiet") else _more_lines(job, shield, unkept, notes):
            say(line)

    logs = () if shop.logs is None else shop.logs
    job = job._replace(service=hooks.service, on_begin=hooks.on_begin, build_logs=logs)

    def start(plan: Plan) -> Ended:
        # A program that has the terminal is not written into: it is said at the end.
        return run_job(job, plan, shop.runner, on_ready, _nothing if job.terminal else say)

    try:
        ended = run_with_images(start, plan, question, shop)
    except Unavailable:
        need_gate_network(request, shop)
        raise
    if hooks.service and hooks.service.wants_another(ended.outcome):
        # The second one begins with what the first one has left, and takes that for what was there.
        _say_of_files(ended, project, quiet=request.has("quiet"))
        ended = _once_more(job, plan, shop, on_ready, hooks.service)
    hooks.on_end(Done(job, plan, ended, shop))
    return _finish(request, ended, clock, question)


def _once_more(
    job: Job, plan: Plan, shop: Workshop, on_ready: Callable[[Gate | None, Shield], None], service: Service
) -> Ended:
    """A second sandbox for a session whose first one died."""
    say("the sandbox died; it is started once more")
    try:
        return run_job(job, plan, shop.runner, on_ready, say)
    finally:
        service.has_ended()


def need_secrets_outside(job: Job, shield: Shield) -> None:
    """Raises UsageError where what the gate is to put in is inside, or lies in what is mounted."""
    if job.secrets:
        from aisb.effects.inject import refuse_in_mounts, refuse_inside

        refuse_inside(job.secrets, job.environment, job.seeds)
        mounts = [*([job.project] if job.project else []), *(item.source for item in job.places)]
        refuse_in_mounts(job.secrets, mounts, {mask.source for mask in shield.masks})


def _more_lines(job: Job, shield: Shield, unkept: Unenforced, notes: Sequence[str]) -> list[str]:
    """What a start says besides its first two lines."""
    missing = [f"note: {unkept.sentence()}"] if unkept.names else []
    return [*missing, *notes, *_shield_lines(job, shield)]


def _shield_lines(job: Job, shield: Shield) -> list[str]:
    found = (shield.in_vain, shield.unmatched)
    return shield_lines(shield.masks, shield.survey, job.places, shield.bare, job.target, *found)


def _with_injections(
    request: Request, given: dict[bytes, bytes], more: tuple[Injected, ...] = ()
) -> tuple[dict[bytes, bytes], bytes]:
    """The variables with placeholders in the place of what is injected, and what the gate is handed."""
    if not request.wanted.injections and not more:
        return given, b""
    # A start without them need not know how they travel.
    from aisb.effects.inject import prepare

    variables, secrets = prepare((*request.wanted.injections, *more), given, os.environb, request.command)
    return dict(variables), secrets


def host_pi(request: Request, project: str) -> PiFiles | None:
    """What the host's pi is configured with, None where there is nothing, or where nobody wants it."""
    goes_along = request.pi.wanted and HARNESSES[request.wanted.harness].bridge
    directory = pi_directory(os.environ) if goes_along else ""
    if not directory:
        return None
    from aisb.cli.pi import read_host

    return read_host(request, project, directory)


def _agent_lines(
    request: Request, plan: Plan, variables: Mapping[bytes, bytes], *, has_models: bool
) -> tuple[str, ...]:
    """What to say of the agent that the command is, where nothing of the host's configuration goes along with it."""
    agent = HARNESSES.get(request.harness)
    if agent is None or request.has("quiet") or (agent.bridge and (has_models or not request.pi.wanted)):
        return ()
    from aisb.effects.pi import opener
    from aisb.render.agent import agent_lines, model_lines

    names = {os.fsdecode(name) for name in variables}
    if agent.bridge:
        return model_lines(names)
    opened = opener(plan.net, plan.session_files["policy.json"])
    return tuple(agent_lines(agent, names, has_key_here=bool(os.environ.get(agent.token)), opened=opened))


def with_injections(question: Question, along: Along) -> Question:
    """The question with what pi's tokens have the gate put in."""
    wanted = question.wanted
    return question._replace(wanted=wanted._replace(injections=(*wanted.injections, *along.injections)))


def unkept_limits(request: Request, host: Host) -> Unenforced:
    """The caps that this host cannot keep. Raises Unprotected where the user will not run without."""
    missing = unenforced(request.wanted.limits, host.cgroup_manager)
    if missing.names and request.has("require-limits"):
        off = " ".join(f"--{name} 0" for name in missing.names)
        raise Unprotected(
            f"refused to run without its limits: {missing.sentence()}",
            hint=f"leave {request.origin('require-limits')} out, or do without: {off}",
        )
    return missing


def identity_of(request: Request, project: str, where: Directories, runner: Runner | None) -> dict[bytes, bytes]:
    """Who commits, for git; nobody where that was switched off, or where anything public could hear of it."""
    if request.has("no-git-identity") or request.wanted.learn:
        return {}
    try:
        return git_identity(os.environ, where.cache, runner, project)
    except Unavailable as error:
        if not request.has("quiet"):
            say(f"note: no name for git goes in: {error.message}")
        return {}


def _with_pins(plan: Plan, runner: Runner) -> Plan:
    # What reads addresses takes time to import, and few runs need it.
    from aisb.effects.no_gate import with_pins

    return with_pins(plan, runner)


def need_gate_network(request: Request, shop: Workshop) -> None:
    """Raises Unavailable where the reason of a failed start is that the gate's network is not there."""
    name = request.gate_network
    if name and shop.runner.run(shop.podman_command("network", "exists", name)).code == 1:
        raise Unavailable(
            f"{request.origin('gate-network')} {name}: podman has no such network", hint="see: podman network ls"
        )


def run_with_images(start: Callable[[Plan], Ended], plan: Plan, question: Question, shop: Workshop) -> Ended:
    """Run; once more where it turns out that somebody removed an image since it was last seen."""
    try:
        ended = start(plan)
        if ended.outcome.phases or _has_images(shop, plan):
            return ended
    except Unavailable:
        if _has_images(shop, plan):
            raise
    say("an image was removed since the last run: looking at both again")
    forget_images(shop.directories.cache, plan)
    # Where the records have changed meanwhile they are others by now.
    now = need_plan(question, shop)
    return start(plan._replace(sandbox_image=now.sandbox_image, gate_image=now.gate_image, gate_key=now.gate_key))


def _nothing(_text: str) -> None:
    """What is told to nobody now."""


def _has_images(shop: Workshop, plan: Plan) -> bool:
    return all(shop.has_image(image) for image in images_of(plan))


class Place(NamedTuple):
    """
    The project, "" without one; device and inode of its `.ai-sandbox`, "" where there is none; what else is mounted.
    """

    project: str
    policy_directory: str
    mounts: tuple[Placed, ...]


def mounts_of(request: Request, sources: Sources, project: str, where: Directories) -> tuple[Placed, ...]:
    """
    What else is to be mounted, looked at: the project's repository too, where it lies elsewhere.

    Raises UsageError or Untrusted for what may not be.
    """
    if not request.files.mounts and sources.git is None:
        return ()
    from aisb.effects.mounts import Around, find_places, place_of_git

    deciding = deciding_directories(os.environ, where)
    own = tuple(os.path.realpath(directory) for directory in where.own())
    home = os.path.realpath(os.environ.get("HOME", "/"))
    around = Around(project, home, own, deciding, volumes_directory(os.environ), target_of(request, project))
    repository = (place_of_git(sources.git, around),) if sources.git else ()
    return (*repository, *find_places(request.files.mounts, around))


def job_of(
    request: Request,
    plan: Plan,
    where: Directories,
    place: Place,
    podman: str,
    network: str,
    variables: dict[bytes, bytes],
    unkept: tuple[str, ...] = (),
) -> Job:
    """What a run needs besides its plan. `unkept` are the caps that this host cannot keep."""
    return Job(
        podman=podman,
        network=network,
        gate_network=request.gate_network or network,
        directories=where,
        project=place.project,
        policy_directory=place.policy_directory,
        wishes=wishes_of(request, place.mounts),
        home_volume=plan.home_volume,
        places=place.mounts,
        read_only=request.has("read-only"),
        command=request.command,
        environment=command_environment_of(plan, variables, request.wanted.harness),
        stdin=True,
        terminal=not request.serves and os.isatty(0) and os.isatty(1),
        limits=tuple(limit for limit in request.wanted.limits if limit.name not in unkept),
        timeout_seconds=request.timeout_seconds,
        ended_by=signal.SIGHUP if request.has("shell") else signal.SIGTERM,
        target=target_of(request, place.project),
        publish=request.wanted.publish,
        keep=request.keep,
    )


def hello_of(job: Job, plan: Plan, gate: Gate | None, shield: Shield) -> dict[str, object]:
    """What the client of a session is told of its sandbox."""
    # A run without one need not know.
    from aisb.render.hello import hello

    return hello(
        image=plan.sandbox_image,
        user=plan.user,
        project=job.project,
        cwd=job.target if job.project else HOME_TARGET,
        mounts=[
            *([(job.project, job.target, False)] if job.project else []),
            *((place.source, place.target, place.read_only) for place in job.places),
        ],
        covers=[*shield.covers, *shield.masks],
        policy_directory=policy_target(job.target) if job.policy_directory else "",
        net=plan.net,
        policy_lines=plan.policy_lines,
        gate=gate.short if gate else "",
        limits=[(limit.name, limit.value) for limit in job.limits],
    )


def wishes_of(request: Request, mounts: tuple[Placed, ...]) -> Wishes:
    """What is to be protected, and what is to read as empty."""
    return Wishes(
        protect=request.files.protect,
        unprotect=request.files.unprotect,
        masks=request.files.masks,
        named_masks=request.files.named_masks,
        default_masks=not request.has("no-default-masks"),
        home=os.environ.get("HOME", ""),
        git_files=(*user_git_files(os.environ), *_configs(mounts)),
        led_to=led_to(os.environ),
    )


def _configs(mounts: tuple[Placed, ...]) -> list[str]:
    """What configures a work tree whose repository lies elsewhere."""
    found = [place.git for place in mounts if place.git is not None]
    return [path for git in found for path in (f"{git.source}/config", f"{git.own}/config.worktree")]


def question_of(request: Request, sources: Sources, project: str, network: str) -> Question:
    """What decides the plan of this request."""
    network = request.gate_network or network
    # Of a served sandbox nothing stays.
    is_ephemeral = request.serves or request.has("ephemeral-home")
    return look_around(
        request.wanted,
        sources,
        project=project,
        network=network,
        ca_origin=request.origin("ca-bundle"),
        fragment=fragment_of(request.wanted.customize, project, request.origin("customize")),
        home=SHARED_HOME if request.has("shared-home") else EPHEMERAL_HOME if is_ephemeral else None,
    )


def fragment_of(path: str, project: str, origin: str) -> str:
    """The user's own part of the Containerfile: by its flag, or as it lies beside the configuration."""
    return read_fragment(path, f"{preview_directories(os.environ).config}/Containerfile", project, origin)


def with_proxy(question: Question, request: Request) -> Question:
    """The question with where its proxy is, looked up. Raises Unavailable where a gate cannot get there."""
    if not request.wanted.proxy:
        return question
    # What looks up a name takes time to import, and few runs need it.
    from aisb.effects.upstream import find_upstream

    found = find_upstream(request.wanted.proxy, request.origin("proxy"), question.network, question.host_addresses)
    return question._replace(proxy_addresses=found)


def shop_of(request: Request, host: Host, where: Directories, runner: Runner) -> Workshop:
    """Where images are built for it, if they are not there."""
    return Workshop(
        host.podman,
        where,
        os.environ,
        runner,
        progress(request),
        time.time(),
        freshness=parse_freshness(os.environ),
        may_fetch=request.may_fetch,
        logs=[],
    )


def progress(request: Request) -> Report:
    """Where a build says how far it is."""
    return Silence() if request.has("quiet") else Progress(write_stderr, terminal=sys.stderr.isatty())


def command_environment_of(plan: Plan, variables: dict[bytes, bytes], harness: str) -> dict[bytes, bytes]:
    """All variables of the command, in an image that holds this agent."""
    return command_environment(
        user=plan.user,
        net=plan.net,
        inherited=os.environ,
        given=variables,
        # Of the user's own, or of a gate that opens TLS.
        extra_certificates="ca.pem" in plan.session_files or "bumped" in plan.gate_files,
        agents=HARNESSES[harness].variables,
    )


def _warn_of_slow_storage(host: Host) -> None:
    if host.storage_driver == "vfs":
        say("warning: podman's storage driver here is vfs: it copies the image for every run (5-16 s)")
        say('  write [storage] driver = "overlay" to ~/.config/containers/storage.conf')


def _say_start(job: Job, named: str, plan: Plan, gate: Gate | None, *, quiet: bool) -> None:
    """The start lines, with the project as it was named. That nothing is filtered is said whatever else is not."""
    view = StartView(
        project=job.project,
        named=named,
        user_home=os.environ.get("HOME", ""),
        home_volume=plan.home_volume,
        net=plan.net,
        names=plan.names,
        addresses=plan.addresses,
        host_ports=len(plan.host_ports),
        gate=gate.short if gate else "",
        warm=gate is not None and gate.warm,
        learn=plan.learn,
    )
    mounted, reachable = start_lines(view)
    if not quiet:
        say(mounted)
    for line in learn_lines(proxied="peers" in plan.gate_files) if plan.learn else ():
        say(line)
    if not quiet or plan.net in (FULL, PINNED):
        say(reachable)
    for line in no_gate_lines() if plan.net == PINNED else ():
        say(line)
    for line in () if quiet else published_lines(job.publish):
        say(line)
    for note in () if quiet else plan.notes:
        say(note)


def _finish(request: Request, ended: Ended, clock: Clock, question: Question) -> int:
    if not request.has("quiet"):
        # Imported already, while the sandbox started.
        from aisb.render.denials import denial_lines

        for line in denial_lines(ended.audit, new_resolvers=question.name_servers != name_servers()):
            say(line)
    for line in limit_lines(ended.outcome.hits, request.wanted.limits, request.timeout_seconds):
        say(line)
    if ended.outcome.seeds and not request.has("quiet"):
        from aisb.render.pi import seed_lines

        for line in seed_lines(ended.outcome.seeds, question.home_volume):
            say(line)
    _say_of_files(ended, question.project, quiet=request.has("quiet"))
    if ended.fault:
        say(f"warning: {ended.fault}")
    if request.has("timings"):
        clock.mark("clean-up")
        for line in timing_lines(sorted([*clock.marks, *ended.outcome.phases.items()], key=lambda mark: mark[1])):
            say(line)
    if ended.outcome.unwritten:
        say(ended.outcome.unwritten)
    return ended.outcome.exit_code()


def _say_of_files(ended: Ended, project: str, *, quiet: bool) -> None:
    from aisb.render.file_report import MOST_EVENTS, file_lines, warns

    # On a terminal nothing was said of it before.
    if os.isatty(0) and os.isatty(1):
        for event in (*ended.files.events[:MOST_EVENTS], *(f"warning: {words}" for words in ended.lost)):
            say(event)
    if not quiet or warns(ended.files):
        for line in file_lines(ended.files, project):
            say(line)
