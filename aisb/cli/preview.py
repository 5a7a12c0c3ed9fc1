"""`--print-*` and `--dry-run`: what would be, from the records as they are. Nothing is started, written or asked."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from aisb.cli.output import answer, say
from aisb.cli.request import read_login, read_request
from aisb.cli.run import (
    Place,
    command_environment_of,
    host_pi,
    identity_of,
    job_of,
    mounts_of,
    need_secrets_outside,
    question_of,
    target_of,
    unkept_limits,
    wish_of,
    wishes_of,
    with_injections,
    with_proxy,
    without_entries,
)
from aisb.domain.egress import read_policy
from aisb.domain.hosts import is_address
from aisb.domain.net import ALLOW, PINNED
from aisb.domain.options import BY_FLAG, FLAG, PREVIEWS
from aisb.domain.policy import need_entries
from aisb.domain.project import EPHEMERAL_HOME
from aisb.domain.trust import PROJECT_DIRECTORY
from aisb.domain.upstream import parse_upstream
from aisb.domain.variables import values_of
from aisb.effects.cgroups import Unenforced
from aisb.effects.guard import joined
from aisb.effects.home_lock import below_home
from aisb.effects.host import known_host
from aisb.effects.make_plan import preview_of
from aisb.effects.placeholders import seen_before
from aisb.effects.run import (
    gate_plan_of,
    gate_view,
    home_argv,
    need_sound_places,
    roots_to_guard,
    run_files,
    view_of,
    writable_roots,
)
from aisb.effects.session import PASTED, Session, directories_of
from aisb.effects.shield import Shield, look
from aisb.effects.situation import resolve_project
from aisb.effects.sources import read_sources
from aisb.effects.state import preview_directories
from aisb.effects.tree import Tree
from aisb.errors import UsageError
from aisb.render.argv import sandbox_argv
from aisb.render.describe import Prepared, Shown, ShownGate, ShownSecret, dry_run_lines
from aisb.render.explain import Files
from aisb.render.gate import gate_argv
from aisb.render.shield import mounted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from aisb.cli.request import Request
    from aisb.cli.splitter import Split
    from aisb.domain.inject_flag import Injected
    from aisb.domain.policy import Policy
    from aisb.effects.gate import GatePlan
    from aisb.effects.guard import Root
    from aisb.effects.plan import Plan, Question
    from aisb.effects.run import Job
    from aisb.effects.sources import Sources
    from aisb.effects.state import Directories

_SECCOMP = "seccomp.json"
_SHOW_A_PROXY = ("dry-run", "print-squid", "print-gate-nft")
# What was asked for, and says nothing of the run.
_NO_SETTINGS = ("dry-run", *(f"print-{what}" for what in PREVIEWS))


def preview(split: Split, asked: Request) -> int:
    """Print what was asked for on stdout, in the order of the help."""
    where = preview_directories(os.environ)
    project = resolve_project(asked.project, os.environ, where)
    sources = read_sources(wish_of(asked, project), where, None, keep=False)
    request = without_entries(read_request(split, os.environ, sources.layers, sources.variables), sources)
    for note in request.notes:
        say(note)
    variables = {**identity_of(request, project, where, None), **values_of(request.given, os.environb)}
    login = read_login(request, os.environb)
    host = known_host(where.cache, os.environ.get("PATH", ""))
    # Of a machine on which nothing ran yet, it is what a newer podman takes.
    network = (host and host.network) or "pasta"
    question = question_of(request, sources, project, network)
    if any(request.has(what) for what in _SHOW_A_PROXY):
        question = _with_proxy_by_name(question, request)

    def files(policy: Policy) -> Files:
        return files_of(request, sources, project, where, policy)

    rendered = preview_of(question, where.cache, files)
    # All of it before any of it is printed: an error leaves nothing half said.
    texts = [rendered.texts[what]() for what in PREVIEWS if request.has(f"print-{what}")]
    if request.has("dry-run"):
        place = Place(project, sources.policy_directory, mounts_of(request, sources, project, where))
        found = host_pi(request, project)
        along = None
        if found:
            from aisb.cli.pi import look_along

            along = look_along(request, found, rendered.plan(), variables)
        if along and along.injections:
            rendered = preview_of(with_injections(question, along), where.cache, files)
        for line in along.lines if along else ():
            say(line)
        injections = (*request.wanted.injections, *(along.injections if along else ()))
        secrets = _set_secrets(injections, variables, request.command)
        variables = {**variables, **(along.shown() if along else {}), **_stand_ins(injections)}
        # Of a machine of which nothing is known yet, none is known that it cannot keep.
        unkept = unkept_limits(request, host) if host else Unenforced()
        job = job_of(request, rendered.plan(), where, place, "podman", network, variables, unkept.names)
        job = job._replace(login=login, secrets=secrets, seeds=along.files if along else {})
        environment = command_environment_of(rendered.plan(), variables, request.wanted.harness)
        shown = Shown(
            variables=_variables(request, environment, along.shown() if along else {}, injections),
            read=sources.names,
            settings=tuple(settings_in_force(request)),
            unready=tuple(_unready(rendered.plan())),
            unkept=unkept.sentence() if unkept.names else "",
            undone=tuple(_undone(request, job, rendered.plan())),
        )
        told = ShownGate("", (), "", PASTED, login=request.wanted.proxy_auth, secrets=_secrets(request, injections))
        texts += [f"{line}\n" for line in _dry_run(job, rendered.plan(), shown, told)]
    answer("".join(texts))
    if request.has("print-policy"):
        say_if_refused(rendered.policy)
    return 0


def _with_proxy_by_name(question: Question, request: Request) -> Question:
    """The question with the proxy as it is called: a run looks up where that is, and a preview asks nobody."""
    if not request.wanted.proxy:
        return question
    upstream = parse_upstream(request.wanted.proxy, request.origin("proxy"))
    if is_address(upstream.host):
        return with_proxy(question, request)
    if not request.has("quiet"):
        say(f"note: a run looks up where the proxy {upstream.host} is; here its name stands for its addresses")
    return question._replace(proxy_addresses=(upstream.host,))


def say_if_refused(policy: Policy) -> None:
    """Beside a policy that is shown: that a run by it is refused, because nothing is allowed."""
    try:
        need_entries(policy)
    except UsageError as refusal:
        say(f"a run would be refused: {refusal.message}")
        say(f"  {refusal.hint}")


def files_of(request: Request, sources: Sources, project: str, where: Directories, policy: Policy) -> Files:
    """What a run would mount, protect and mask, and which variables its pi would take a token from."""
    places = mounts_of(request, sources, project, where)
    target = target_of(request, project)
    shield = _shield(roots_to_guard(project, target, wishes_of(request, places), places), where.state)
    need_sound_places(places, shield, project, target, policy_directory=bool(sources.policy_directory))
    masked = {mask.source for mask in shield.masks if mask.shown}
    kept = {cover.source for cover in shield.covers if cover.read_only}
    kept |= {f"{project}/{PROJECT_DIRECTORY}"} if sources.policy_directory else set()
    protected = sorted(kept.union(item.path for item in shield.watched))
    return Files(
        mounts=tuple((mounted(place), place.origin) for place in places),
        protected=tuple((path, "read-only" if path in kept | masked else "watched") for path in protected),
        masked=tuple(sorted(masked)),
        tokens=_tokens(request, project, policy),
    )


def _tokens(request: Request, project: str, policy: Policy) -> tuple[tuple[str, str], ...]:
    found = host_pi(request, project)
    if not found:
        return ()
    from aisb.cli.pi import tokens_of

    return tokens_of(request, found, policy)


def _shield(roots: Iterable[Root], state: str) -> Shield:
    """What a run would protect, with nothing made for it and nothing written down."""
    shields = []
    for root in roots:
        with Tree(root.source) as tree:
            shields.append(look(tree, root.target, root.wishes, None, partial(seen_before, state, root.source)))
    return joined(shields)


def settings_in_force(request: Request) -> Iterator[str]:
    """Each setting of which one counts, with where it was written; what was built in is left out."""
    for name, setting in sorted(request.chosen.items()):
        if (name == "proxy" and not request.wanted.proxy) or name in _NO_SETTINGS:
            continue
        is_flag = BY_FLAG[f"--{name}"].kind == FLAG
        value = ("on" if request.has(name) else "off") if is_flag else setting.value
        yield f"{name} {value} ({setting.origin})"


def _unready(plan: Plan) -> Iterator[str]:
    """What the files of a run hold that only its start finds out."""
    if plan.net == PINNED and read_policy(plan.session_files["policy.json"]).names:
        yield "--no-gate: a run looks its names up when it starts; these lines reach no name, only addresses"


def _undone(request: Request, job: Job, plan: Plan) -> Iterator[str]:
    """What aisb itself does of what was asked for, and a shell does not."""
    for port in plan.host_ports:
        yield f"host:{port} is aisb's own doing: a run has a process that leads there, and these lines have none"
    inside = job.target if job.project else ""
    places = below_home(job.places, inside) if job.home_volume != EPHEMERAL_HOME else []
    if places:
        named = ", ".join(f"~/{path}" for path, _ in places)
        yield f"the place of {named} is aisb's own doing: a run makes it in the home, as yours, and follows no link;"
        yield "of these lines podman makes it, as root's for ever, and follows where an agent has made it lead"
    if request.timeout_seconds:
        yield f"--timeout is aisb's own doing: these lines wait for the command's end, not {request.timeout_seconds} s"
    if request.has("detach"):
        yield "--detach is aisb's own doing: these lines wait for the command's end"


def _stand_ins(injections: Sequence[Injected]) -> dict[bytes, bytes]:
    """The variables of the sandbox that have to do with what its gate puts in. A run makes its placeholders up."""
    if not injections:
        return {}
    from aisb.domain.inject_flag import git_variables

    made = {item.variable.encode(): _placeholder(item).encode() for item in injections}
    return {**git_variables(injections), **made}


def _set_secrets(injections: Sequence[Injected], variables: Mapping[bytes, bytes], command: Sequence[str]) -> bytes:
    """
    What a gate would be handed, as far as it is set here: the lines take it from the shell that they are pasted in.

    It is never printed. Raises UsageError for what a run refuses: a value that stands inside as well.
    """
    there = [item for item in injections if (name := os.fsencode(item.variable)) in variables or name in os.environb]
    if not there:
        return b""
    from aisb.effects.inject import prepare

    return prepare(there, variables, os.environb, command).secrets


def _placeholder(item: Injected) -> str:
    return f"placeholder-of-{item.variable}"


def _secrets(request: Request, injections: Sequence[Injected]) -> tuple[ShownSecret, ...]:
    sources = {item.name: item.source or item.name for item in request.given}
    return tuple(
        ShownSecret(item.host, item.header, _placeholder(item), sources.get(item.variable, item.variable))
        for item in injections
    )


def _dry_run(job: Job, plan: Plan, shown: Shown, told: ShownGate) -> list[str]:
    gated = plan.net == ALLOW
    runtime = job.directories.runtime
    gate_plan = gate_plan_of(job, plan, PASTED)
    directory = f"{runtime}/g/{gate_plan.short}"
    session = Session(PASTED, f"{directory}/r/{PASTED}" if gated else f"{runtime}/r/{PASTED}")
    shield = _shield(writable_roots(job), job.directories.state)
    has_policy = bool(job.policy_directory)
    need_sound_places(job.places, shield, job.project, job.target, policy_directory=has_policy)
    need_secrets_outside(job, shield)
    labels = (("aisb.role", "sandbox"), ("aisb.run", PASTED))
    run = shown._replace(
        session=session.path,
        prepared=_prepared(job, plan, session, shield, directory if gated else "", gate_plan),
        sandbox=sandbox_argv(view_of(job, plan, session, labels, shield)),
        home=home_argv(job.podman, job.home_volume) if job.home_volume != EPHEMERAL_HOME else (),
        publish=job.publish,
    )
    if not gated:
        return dry_run_lines(run)
    gate = told._replace(
        directory=directory,
        argv=gate_argv(gate_view(job, gate_plan, directory)._replace(holds_secrets=bool(told.secrets))),
        container=gate_plan.container,
        is_own=bool(gate_plan.owner),
    )
    return dry_run_lines(run, gate)


def _prepared(job: Job, plan: Plan, session: Session, shield: Shield, gate: str, gate_plan: GatePlan) -> Prepared:
    """What lies there before the run begins, less what is put down of it for others than podman."""
    missing = tuple((cover.source, cover.target) for cover in shield.covers if not cover.identity)
    here = shield._replace(covers=tuple(cover for cover in shield.covers if cover.identity))
    files = {**plan.session_files, **run_files(job, session, plan.net, shield)}
    files["covers"] = run_files(job, session, plan.net, here)["covers"]
    texts = [(f"{session.files}/{name}", text) for name, text in sorted(files.items())]
    seccomp = [f"{session.path}/seccomp.json"]
    if gate:
        texts += [(f"{gate}/conf/{name}", text) for name, text in sorted(plan.gate_files.items()) if name != _SECCOMP]
        texts += [(f"{gate}/key", gate_plan.key), *([(f"{gate}/owner", session.run)] if plan.own_gate else [])]
        seccomp += [f"{gate}/conf/{_SECCOMP}"]
    parents = [(os.path.dirname(gate), 0o700), (gate, 0o711), (f"{gate}/conf", 0o755)] if gate else []
    return Prepared(
        directories=(
            (job.directories.runtime, 0o700),
            *parents,
            (os.path.dirname(session.path), 0o711),
            *directories_of(session).items(),
        ),
        files=tuple(texts),
        seccomp=tuple(seccomp),
        missing=missing,
        covers=f"{session.files}/covers",
    )


def _variables(
    request: Request, every: Mapping[bytes, bytes], tokens: Collection[bytes], injections: Sequence[Injected]
) -> tuple[tuple[str, str, bool], ...]:
    """Each variable of the command; of one that the user gave, or of a token, which one of this shell it would be."""
    private = {os.fsdecode(name): os.fsdecode(name) for name in tokens}
    private |= {item.name: item.source or item.name for item in request.given}
    for item in injections:
        private.pop(item.variable, None)
    pairs = ((os.fsdecode(name), os.fsdecode(value)) for name, value in sorted(every.items()))
    return tuple((name, private.get(name, value), name in private) for name, value in pairs)
