"""The verbs besides `run`: typer carries them, each imported when it is used."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from difflib import get_close_matches
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from aisb import __version__
from aisb.cli.help import verb_help
from aisb.cli.hints import line_of, nearest_flag, nearest_word
from aisb.cli.main import BELOW
from aisb.cli.output import answer
from aisb.cli.request import variable_of
from aisb.domain.answers import answer_text
from aisb.domain.options import BY_FLAG
from aisb.errors import UsageError

if TYPE_CHECKING:
    from aisb.cli.images import ImageFlags

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
# Of its parser's errors typer exports one; what that derives from is all of them.
_UNREADABLE = cast("type[Exception]", typer.BadParameter.__base__)
_NO_FLAG = "No such option: "
_WORDS = (
    (_NO_FLAG, "it has no flag "),
    ("Got unexpected extra argument(s) ", "it takes no argument "),
    ("Option '", "the flag '"),
    ("requires an argument", "needs a value"),
    ("Missing parameter: words", "it needs a target: HOST, HOST:PORT, or https://HOST/PATH"),
    ("Missing parameter: entry", "it needs an entry: HOST or HOST:PORT"),
    ("No such command ", "it knows no word "),
)
# As for a run.
_HELP = {"help_option_names": ["--help", "-h"]}


class _Verb(TyperCommand):
    """A verb whose help looks like that of a run."""

    # typer calls this with a context of its own class or of click's, as its release has it; ours needs none of it.
    def get_help(self, ctx: Any) -> str:  # noqa: ANN401  # see above
        options = [option for option in self.params if isinstance(option, TyperOption)]
        words = [str(word.metavar) for word in self.params if isinstance(word, TyperArgument)]
        variables = [option.envvar for option in options if isinstance(option.envvar, str)]
        flags = [*map(_flag, options), ("--help", BY_FLAG["--help"].help)]
        return verb_help(ctx.command_path.removeprefix("aisb "), self.help or "", flags, variables, words)


def _flag(option: TyperOption) -> tuple[str, str]:
    """A flag with its metavar, and its help with its short form."""
    name, *shorter = sorted(option.opts, key=len, reverse=True)
    text = (option.help or "") + "".join(f" (also {short})" for short in shorter)
    return f"{name} {option.metavar}" if option.metavar else name, text


def _text(name: str) -> str:
    """The help of the flag of that name of a run, which means the same here."""
    return BY_FLAG[f"--{name}"].help


def _metavar(name: str) -> str:
    return BY_FLAG[f"--{name}"].metavar


@app.callback()
def _aisb() -> None:
    """Run a coding agent in a rootless sandbox whose network is an explicit allowlist."""


def _image_value(name: str, text: str = "") -> str:
    """A flag of a run that says which images are meant, or its variable."""
    option = typer.Option("", f"--{name}", metavar=_metavar(name), help=text or _text(name), envvar=variable_of(name))
    return cast("str", option)


_BASE_IMAGE = _image_value("base-image")
_CA_BUNDLE = _image_value("ca-bundle", "extra certificates to trust while building")
_CUSTOMIZE = _image_value("customize")
_HARNESS = _image_value("harness")
_NODE = _image_value("node")
_NODE_SOURCE = _image_value("node-source")
_PULL = _image_value("pull")
_INSTALL = cast("list[str]", typer.Option([], metavar=_metavar("install"), help=_text("install")))
_TRACE = cast("bool", typer.Option(False, "--trace", help=_text("trace")))
_JSON = cast("bool", typer.Option(False, "--json", help="as JSON"))
_QUIET = cast("bool", typer.Option(False, "--quiet", "-q", help="only errors"))


@app.command(cls=_Verb, context_settings=_HELP)
def version(json: bool = _JSON) -> None:
    """aisb's version."""
    typer.echo(answer_text({"aisb": __version__}) if json else f"aisb {__version__}\n", nl=False)


# typer makes a flag of each parameter. Those that say which images are meant are read off the context, with where each
# was written, by one function for three verbs: hence parameters that their own function does not look at (ARG001).
def _images(context: typer.Context) -> ImageFlags:
    """What the flags and variables of this command line say of the images."""
    from aisb.cli.images import FLAGS, ImageFlags
    from aisb.domain.layers import Setting

    values = {name: context.params.get(name.replace("-", "_")) for name in FLAGS}
    origins = _origins(context, *FLAGS)
    return ImageFlags(
        given={name: Setting(str(value), origins[name]) for name, value in values.items() if value},
        install=tuple(context.params.get("install") or ()),
        trace=bool(context.params.get("trace")),
        quiet=bool(context.params.get("quiet")),
    )


@app.command(cls=_Verb, context_settings=_HELP)
def build(
    context: typer.Context,
    base_image: str = _BASE_IMAGE,  # noqa: ARG001
    install: list[str] = _INSTALL,  # noqa: ARG001
    customize: str = _CUSTOMIZE,  # noqa: ARG001
    node: str = _NODE,  # noqa: ARG001
    node_source: str = _NODE_SOURCE,  # noqa: ARG001
    ca_bundle: str = _CA_BUNDLE,  # noqa: ARG001
    pull: str = _PULL,  # noqa: ARG001
    refresh_base: bool = typer.Option(False, "--refresh-base", help="look the base's tag up again first"),
    no_cache: bool = typer.Option(False, "--no-cache", help="build both anew, without the layers that are there"),
    why: bool = typer.Option(
        False, "--why", help="build nothing: say what is different from the images that are there"
    ),
    harness: str = _HARNESS,  # noqa: ARG001
    json: bool = _JSON,
    trace: bool = _TRACE,  # noqa: ARG001
    quiet: bool = _QUIET,  # noqa: ARG001
) -> None:
    """Build what is missing of the two images, and print their names."""
    from aisb.cli.build import build_verb

    build_verb(_images(context), refresh_base=refresh_base, no_cache=no_cache, why=why, as_json=json)


@app.command(cls=_Verb, context_settings=_HELP)
def update(
    context: typer.Context,
    check: bool = typer.Option(False, "--check", help="build nothing: say what is newer (10: something is)"),
    json: bool = _JSON,
    rollback: bool = typer.Option(False, "--rollback", help="go back to the images before the last update"),
    base_image: str = _BASE_IMAGE,  # noqa: ARG001
    install: list[str] = _INSTALL,  # noqa: ARG001
    customize: str = _CUSTOMIZE,  # noqa: ARG001
    harness: str = _HARNESS,  # noqa: ARG001
    node: str = _NODE,  # noqa: ARG001
    node_source: str = _NODE_SOURCE,  # noqa: ARG001
    ca_bundle: str = _CA_BUNDLE,  # noqa: ARG001
    pull: str = _PULL,  # noqa: ARG001
    trace: bool = _TRACE,  # noqa: ARG001
    quiet: bool = _QUIET,  # noqa: ARG001
) -> int:
    """Build both images anew with what is new: base, packages, Node, the agent."""
    from aisb.cli.update import update_verb

    return update_verb(_images(context), check=check, as_json=json, rollback=rollback)


@app.command(cls=_Verb, context_settings=_HELP)
def inspect(
    context: typer.Context,
    what: str = typer.Argument(
        "",
        metavar="[RUN|IMAGE]",
        help="a run's id or its beginning, . for the one that runs here; NAME:TAG of an image",
    ),
    packages: bool = typer.Option(False, "--packages", help="with every package and its version"),
    base_image: str = _BASE_IMAGE,  # noqa: ARG001
    install: list[str] = _INSTALL,  # noqa: ARG001
    customize: str = _CUSTOMIZE,  # noqa: ARG001
    harness: str = _HARNESS,  # noqa: ARG001
    node: str = _NODE,  # noqa: ARG001
    node_source: str = _NODE_SOURCE,  # noqa: ARG001
    json: bool = typer.Option(False, "--json", help="as JSON, which it is anyway"),  # noqa: ARG001
    trace: bool = _TRACE,  # noqa: ARG001
) -> None:
    """What the two images of a run here are and hold, or another, or what a run is or was, as JSON."""
    is_image = "/" in what or ":" in what
    if what and not is_image:
        from aisb.cli.runs import inspect_run_verb

        inspect_run_verb(what, packages=packages)
        return
    from aisb.cli.update import inspect_image_verb, inspect_verb

    if is_image:
        inspect_image_verb(_images(context), what, packages=packages)
    else:
        inspect_verb(_images(context), packages=packages)


class _Words(TyperGroup):
    """A verb with words below it, whose help looks like that of a run."""

    def get_help(self, ctx: Any) -> str:  # noqa: ANN401  # as of a verb
        words = [(word, command.help or "") for word, command in self.commands.items()]
        verb = ctx.command_path.removeprefix("aisb ")
        about = f"{self.help or ''} Each word has flags of its own: see\naisb {verb} {words[0][0]} --help"
        return verb_help(f"{verb} WORD", about, [*words, ("--help", BY_FLAG["--help"].help)], ())


def _group(name: str, about: str) -> typer.Typer:
    """A verb with words below it, to which they are added."""
    group = typer.Typer(
        cls=_Words,
        context_settings=_HELP,
        add_completion=False,
        no_args_is_help=False,
        rich_markup_mode=None,
        help=about,
    )
    app.add_typer(group, name=name)
    return group


policy = _group("policy", "What a run may reach, asked beforehand.")


def _list_of(name: str) -> list[str]:
    return cast("list[str]", typer.Option([], f"--{name}", metavar=_metavar(name), help=_text(name)))


def _value_of(name: str) -> str:
    return cast("str", typer.Option("", f"--{name}", metavar=_metavar(name), help=_text(name)))


def _flag_of(name: str) -> bool:
    return cast("bool", typer.Option(False, f"--{name}", help=_text(name)))


def _flags(**given: list[str] | str | bool) -> tuple[tuple[str, str], ...]:
    """The flags of a run that were given, as the splitter has them."""
    return tuple((name.replace("_", "-"), value) for name, found in given.items() for value in _values(found))


def _values(given: list[str] | str | bool) -> list[str]:
    """What was given of a flag, which may be nothing; a plain flag's value is empty."""
    if isinstance(given, bool):
        return [""] if given else []
    return [value for value in (given if isinstance(given, list) else [given]) if value]


gate = _group("gate", "The gates of your sandboxes: one for each policy that is in use.")
_GATES = typer.Argument(None, metavar="[GATE]...", help="how its name begins, as the start of a run shows it")


@gate.command("status", cls=_Verb, context_settings=_HELP)
def gate_status(
    gates: list[str] = _GATES,
    everything: bool = typer.Option(False, "--all", help="those too that have ended"),
    json: bool = _JSON,
) -> int:
    """Have each gate prove itself, past its own judgement: 0, or 69 where one does not."""
    from aisb.cli.gate import status_verb

    return status_verb(gates or (), everything=everything, as_json=json)


@gate.command("up", cls=_Verb, context_settings=_HELP)
def gate_up(
    allow: list[str] = _list_of("allow"),
    files: list[str] = _list_of("policy"),
    gate_idle: str = _value_of("gate-idle"),
    base_image: str = _value_of("base-image"),
    install: list[str] = _list_of("install"),
    harness: str = _value_of("harness"),
    project: str = _value_of("project"),
    trust_once: str = _value_of("trust-once"),
    json: bool = _JSON,
    quiet: bool = _flag_of("quiet"),
) -> int:
    """Start the gate that a run with these flags would use here, so that the run finds it warm."""
    from aisb.cli.gate import up_verb

    given = _flags(allow=allow, policy=files, install=install, harness=harness, project=project, quiet=quiet)
    more = _flags(gate_idle=gate_idle, base_image=base_image, trust_once=trust_once)
    return up_verb((*given, *more), as_json=json)


@gate.command("down", cls=_Verb, context_settings=_HELP)
def gate_down(
    gates: list[str] = _GATES,
    everything: bool = typer.Option(False, "--all", help="those too that a run uses: it has no network from then on"),
) -> int:
    """End the gates that no run uses; the next run starts one."""
    from aisb.cli.gate import down_verb

    return down_verb(gates or (), everything=everything)


@gate.command("logs", cls=_Verb, context_settings=_HELP)
def gate_logs(
    gates: list[str] = _GATES,
    everything: bool = typer.Option(False, "--all", help="all that its programs have said, their start too"),
    json: bool = _JSON,
) -> int:
    """Print the gate's own troubles; what it refused is in: aisb logs"""
    from aisb.cli.gate import logs_verb

    return logs_verb(gates or (), everything=everything, as_json=json)


@policy.command(cls=_Verb, context_settings=_HELP)
def check(
    words: list[str] = typer.Argument(metavar="[METHOD] TARGET", help="HOST, HOST:PORT, or https://HOST/PATH"),
    allow: list[str] = _list_of("allow"),
    files: list[str] = _list_of("policy"),
    inject: list[str] = _list_of("inject"),
    net: str = _value_of("net"),
    no_gate: bool = _flag_of("no-gate"),
    project: str = _value_of("project"),
    trust_once: str = _value_of("trust-once"),
    json: bool = _JSON,
) -> int:
    """Ask the gate's own judge: 0 allowed, 1 denied; and which line decides."""
    from aisb.cli.policy import check_verb

    return check_verb(
        _flags(
            allow=allow, policy=files, inject=inject, net=net, no_gate=no_gate, project=project, trust_once=trust_once
        ),
        words,
        as_json=json,
    )


@policy.command(cls=_Verb, context_settings=_HELP)
def show(
    allow: list[str] = _list_of("allow"),
    files: list[str] = _list_of("policy"),
    inject: list[str] = _list_of("inject"),
    net: str = _value_of("net"),
    no_gate: bool = _flag_of("no-gate"),
    project: str = _value_of("project"),
    trust_once: str = _value_of("trust-once"),
    json: bool = _JSON,
) -> int:
    """The whole policy, as aisb --print-policy shows it."""
    from aisb.cli.policy import show_verb

    return show_verb(
        _flags(
            allow=allow, policy=files, inject=inject, net=net, no_gate=no_gate, project=project, trust_once=trust_once
        ),
        as_json=json,
    )


@policy.command(cls=_Verb, context_settings=_HELP)
def presets(
    name: str = typer.Argument("", metavar="[NAME]", help="one of them, as npm or @npm"),
    base_image: str = _value_of("base-image"),
    install: list[str] = _list_of("install"),
    harness: str = _value_of("harness"),
    json: bool = _JSON,
) -> int:
    """What @NAME stands for: each entry, and why. Those of npm, pypi and apt are read off the image."""
    from aisb.cli.policy import presets_verb

    return presets_verb(_flags(base_image=base_image, install=install, harness=harness), name, as_json=json)


@app.command(cls=_Verb, context_settings=_HELP)
def allow(
    entry: str = typer.Argument(metavar="ENTRY", help="as --allow takes it"),
    period: str = typer.Option("", "--for", metavar="TIME", help="how long: 90s, 15m, 2h, 1d (default: until it ends)"),
    run: str = typer.Option("", metavar="ID", help="the run, or how its id begins (default: the project's only one)"),
    save: bool = typer.Option(False, "--save", help="also write it to .ai-sandbox/allow, for later runs"),
    project: str = typer.Option(".", metavar="DIR", help="the project (default: here)"),
) -> int:
    """Let a running sandbox reach something more, until it ends."""
    from aisb.cli.live import allow_verb

    return allow_verb(entry, period=period, run=run, save=save, project=project)


@app.command(cls=_Verb, context_settings=_HELP)
def deny(
    entry: str = typer.Argument(metavar="ENTRY", help="a name or an address; without a port, all ports"),
    run: str = typer.Option("", metavar="ID", help="the run, or how its id begins (default: the project's only one)"),
    project: str = typer.Option(".", metavar="DIR", help="the project (default: here)"),
) -> int:
    """Forbid a running sandbox something until it ends, and end the connections there."""
    from aisb.cli.live import deny_verb

    return deny_verb(entry, run=run, project=project)


@app.command(cls=_Verb, context_settings=_HELP)
def clean(
    everything: bool = typer.Option(
        False, "--all", help="all images that are not in use, not only older ones; and idle gates"
    ),
    volumes: bool = typer.Option(False, "--volumes", help="also the homes of projects, with what agents keep there"),
    volume: str = typer.Option("", metavar="GLOB", help="also the homes of that name: 'aisb-home-web-*'"),
    dry_run: bool = typer.Option(False, "--dry-run", help="say what would go, and leave it"),
    json: bool = _JSON,
    trace: bool = _TRACE,
) -> int:
    """Take away what no run needs: older images, what killed runs left; nothing that is in use, and no one else's."""
    from aisb.cli.clean import clean_verb

    return clean_verb(everything=everything, volumes=volumes, volume=volume, dry_run=dry_run, trace=trace, as_json=json)


@app.command(cls=_Verb, context_settings=_HELP)
def doctor(
    json: bool = _JSON,
    strict: bool = typer.Option(False, "--strict", help="let warnings count too"),
    deep: bool = typer.Option(False, "--deep", help="also start a run, and try from inside what it must hold off"),
) -> int:
    """Look whether a run will work here and be enforced: 0 yes, 69 no; and what to do about it."""
    from aisb.cli.doctor import doctor_verb

    return doctor_verb(json_wanted=json, strict=strict, deep=deep)


@app.command(cls=_Verb, context_settings=_HELP)
def init(
    project: str = typer.Option(".", metavar="DIR", help="the project (default: here)"),
    json: bool = _JSON,
) -> int:
    """Write .ai-sandbox/allow for the project here, and trust what was written."""
    from aisb.cli.init import init_verb

    return init_verb(project, as_json=json)


@app.command(cls=_Verb, context_settings=_HELP)
def trust(
    files: list[str] = typer.Argument(None, metavar="[FILE]...", help="a file of the project that a flag names"),
    project: str = typer.Option(".", metavar="DIR", help="the project (default: here)"),
    show: bool = typer.Option(False, "--show", help="say whether it is trusted, and what differs: 0 yes, 1 no"),
    json: bool = typer.Option(False, "--json", help="with --show: as JSON"),
    revoke: bool = typer.Option(False, "--revoke", help="trust nothing of it any more"),
    env_file: list[str] = typer.Option(
        [], "--env-file", metavar="FILE", help="a file of variables in the project; no value of it is shown"
    ),
) -> int:
    """Look at what a project's .ai-sandbox says, and let it count from now on."""
    from aisb.cli.trust import trust_verb

    return trust_verb(project, tuple(files or ()), tuple(env_file), show=show, revoke=revoke, as_json=json)


@app.command(cls=_Verb, context_settings=_HELP)
def ps(
    everything: bool = typer.Option(False, "--all", help="those too that have ended, and how, as far as on record"),
    json: bool = _JSON,
    quiet: bool = typer.Option(False, "--quiet", "-q", help="only their ids"),
) -> None:
    """The runs that go on, the oldest first: for how long, with how much memory, and what each was denied."""
    if quiet and json:
        raise UsageError("--quiet and --json exclude each other", hint="leave one of the two out")
    if quiet:
        from aisb.cli.ids import ids_verb

        ids_verb(everything=everything)
        return
    from aisb.cli.runs import ps_verb

    ps_verb(everything=everything, as_json=json)


@app.command(cls=_Verb, context_settings=_HELP)
def stop(
    runs: list[str] = typer.Argument(
        None, metavar="[RUN]...", help="a run's id or its beginning (default: the project's only one)"
    ),
    project: str = typer.Option(".", metavar="DIR", help="the project (default: here)"),
) -> int:
    """End runs, and wait until nothing is left of them."""
    from aisb.cli.runs import stop_verb

    return stop_verb(runs or (), project)


@app.command(cls=_Verb, context_settings=_HELP)
def logs(
    run: str = typer.Argument("", metavar="[RUN]", help="a run's id or its beginning; . for the one that runs here"),
    follow: bool = typer.Option(False, "--follow", "-f", help="go on until the run ends"),
    denied: bool = typer.Option(False, "--denied", help="only what was refused"),
    json: bool = typer.Option(False, "--json", help="the lines as they were written; with --summary: one object"),
    summary: bool = typer.Option(False, "--summary", help="each destination, and the entry that would allow it"),
    markdown: bool = typer.Option(False, "--markdown", help="with --summary: a table for the page of a CI job"),
    since: str = typer.Option("", metavar="TIME", help="from then on: 30m, 2h, 1d ago, or 2026-01-31T09:30 (UTC)"),
    project: str = typer.Option(".", metavar="DIR", help="the project (default: here)"),
) -> Any:  # noqa: ANN401 - typer looks the name of the type up, and has none for what is left to be done
    """Show what a run of this project was allowed and refused, also while it runs."""
    from aisb.cli.logs import Wish, logs_verb

    wish = Wish(follow=follow, denied=denied, json=json, summary=summary, markdown=markdown, since=since)
    return lambda: logs_verb(run, project, wish)


def _origins(context: typer.Context, *names: str) -> dict[str, str]:
    """Where the value of each option came from: its flag or its variable."""
    sources = {name: context.get_parameter_source(name.replace("-", "_")) for name in names}
    by_variable = {name for name, source in sources.items() if source is not None and source.name == "ENVIRONMENT"}
    return {name: variable_of(name) if name in by_variable else f"--{name}" for name in names}


def run_verb(verb: str, words: list[str]) -> int:
    """Run a verb and return its exit code. Raises UsageError for a command line that it cannot read."""
    _refuse_nothing(verb, words)
    try:
        with redirect_stdout(io.StringIO()) as printed:
            code = app([verb, *words], prog_name="aisb", standalone_mode=False)
    except _UNREADABLE as error:
        raise UsageError(
            f"{_named(verb, words)}: {_sentence(str(error), verb)}",
            hint=_near_flag(verb, words, str(error)) or _hint(verb, words),
        ) from error
    answer(printed.getvalue())
    # What a verb leaves to be done prints as it goes.
    done = code() if callable(code) else code
    return done if isinstance(done, int) else 0


def _refuse_nothing(verb: str, words: list[str]) -> None:
    """Raises UsageError for an empty argument: an entry, a run or a time that is left out means something else."""
    for before, word in pairwise(("", *words)):
        flag = word[:-1] if word.startswith("--") and word.endswith("=") else before if before.startswith("--") else ""
        if not word or word == f"{flag}=":
            raise UsageError(
                f"{_named(verb, words)}: {flag or 'an argument'} is empty",
                hint=f"an empty variable? {_see(verb, words)}",
            )


def _named(verb: str, words: list[str]) -> str:
    """The verb, or the one below it, as it is typed."""
    below = words[:1] if words[:1] and words[0] in BELOW.get(verb, ()) else []
    return " ".join(["aisb", verb, *below])


def _see(verb: str, words: list[str]) -> str:
    """Where it is said how it is written."""
    return f"see: {_named(verb, words)} --help"


def _near_flag(verb: str, words: list[str], text: str) -> str:
    """The flag of this verb that was probably meant where it was one that it has not; "" otherwise."""
    unknown = text.partition(_NO_FLAG)[2].partition(" ")[0].rstrip(".")
    if not unknown:
        return ""
    command: Any = typer.main.get_command(app)
    for word in (verb, *(words[:1] if verb in BELOW else ())):
        command = getattr(command, "commands", {}).get(word)
    flags = [name for param in getattr(command, "params", ()) for name in param.opts if name.startswith("--")]
    other = nearest_flag(unknown)
    near = nearest_word(unknown, flags) or (other if other in flags else None)
    return f"did you mean {near}?" if near else ""


def _hint(verb: str, words: list[str]) -> str:
    """The line that was meant, where it is one of the words below a verb that is wrong; else where to look."""
    below = BELOW.get(verb, ())
    if not below or not words or words[0] in below:
        return _see(verb, words)
    near = get_close_matches(words[0].lower(), below, n=1)
    return f"write: {line_of('aisb', verb, near[0], *words[1:])}" if near else _see(verb, words)


def _sentence(text: str, verb: str) -> str:
    """What was wrong, in the words of the rest of aisb where typer's are known."""
    *first, last = BELOW.get(verb, ("",))
    for theirs, ours in (*_WORDS, ("Missing command", f"it needs a word: {', '.join(first)} or {last}")):
        text = text.replace(theirs, ours)
    # The word that was meant stands in the hint, in a line of its own.
    return text.partition(". Did you mean ")[0].removesuffix(".")
