"""`--print-*` and `--dry-run`: what would be, from the records as they are. Nothing is started, written or asked."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from aisb.cli.output import answer, say
from aisb.cli.request import read_login, read_request
from aisb.cli.run import (
    Place,
    command_environment_of,
    host_pi,
    identity_of,
    job_of,
    mounts_of,
    question_of,
    target_of,
    wish_of,
    wishes_of,
    with_injections,
    with_proxy,
    without_entries,
)
from aisb.domain.hosts import is_address
from aisb.domain.options import BY_FLAG, FLAG, PREVIEWS
from aisb.domain.policy import need_entries
from aisb.domain.trust import PROJECT_DIRECTORY
from aisb.domain.upstream import parse_upstream
from aisb.domain.variables import values_of
from aisb.effects.guard import joined
from aisb.effects.make_plan import preview_of
from aisb.effects.run import gate_plan_of, gate_view, roots_to_guard, seed_files, view_of, writable_roots
from aisb.effects.session import Session
from aisb.effects.shield import Shield, look
from aisb.effects.situation import resolve_project
from aisb.effects.sources import read_sources
from aisb.effects.state import preview_directories
from aisb.effects.tree import Tree
from aisb.errors import UsageError
from aisb.render.argv import sandbox_argv
from aisb.render.describe import dry_run_lines
from aisb.render.explain import Files
from aisb.render.gate import gate_argv
from aisb.render.shield import mounted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aisb.cli.request import Request
    from aisb.cli.splitter import Split
    from aisb.domain.policy import Policy
    from aisb.effects.guard import Root
    from aisb.effects.plan import Plan, Question
    from aisb.effects.run import Job
    from aisb.effects.sources import Sources
    from aisb.effects.state import Directories

_RUN = "00000000"
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
    question = question_of(request, sources, project, "pasta")
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
        variables = {**variables, **(along.shown() if along else {})}
        job = job_of(request, rendered.plan(), where, place, "podman", "pasta", variables)
        job = job._replace(login=login, seeds=along.files if along else {})
        names = command_environment_of(rendered.plan(), variables, request.wanted.harness)
        shown = _Shown(tuple(map(os.fsdecode, names)), sources.names, tuple(settings_in_force(request)))
        texts += [f"{line}\n" for line in _dry_run(job, rendered.plan(), shown)]
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
    shield = _shield(roots_to_guard(project, target_of(request, project), wishes_of(request, places), places))
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


def _shield(roots: Iterable[Root]) -> Shield:
    """What a run would protect, with nothing made for it."""
    shields = []
    for root in roots:
        with Tree(root.source) as tree:
            shields.append(look(tree, root.target, root.wishes, None))
    return joined(shields)


class _Shown(NamedTuple):
    """What a dry run says beside the commands: names of variables, and the files and settings that it took."""

    variables: tuple[str, ...]
    read: tuple[str, ...]
    settings: tuple[str, ...]


def settings_in_force(request: Request) -> Iterator[str]:
    """Each setting of which one counts, with where it was written; what was built in is left out."""
    for name, setting in sorted(request.chosen.items()):
        if (name == "proxy" and not request.wanted.proxy) or name in _NO_SETTINGS:
            continue
        is_flag = BY_FLAG[f"--{name}"].kind == FLAG
        value = ("on" if request.has(name) else "off") if is_flag else setting.value
        yield f"{name} {value} ({setting.origin})"


def _dry_run(job: Job, plan: Plan, shown: _Shown) -> list[str]:
    gated = plan.net == "allow"
    runtime = job.directories.runtime
    gate_plan = gate_plan_of(job, plan, _RUN)
    gate = f"{runtime}/g/{gate_plan.short}"
    session = Session(_RUN, f"{gate}/r/{_RUN}" if gated else f"{runtime}/r/{_RUN}")
    files = [f"{session.files}/{name}" for name in sorted([*plan.session_files, *seed_files(job.seeds)])]
    files += [f"{gate}/conf/{name}" for name in sorted(plan.gate_files)]
    shield = _shield(writable_roots(job))
    return dry_run_lines(
        files=files,
        gate=gate_argv(gate_view(job, gate_plan, gate)) if gated else (),
        has_login=bool(gate_plan.login),
        publish=job.publish,
        sandbox=sandbox_argv(view_of(job, plan, session, (("aisb.role", "sandbox"), ("aisb.run", _RUN)), shield)),
        variables=shown.variables,
        read=shown.read,
        settings=shown.settings,
    )
