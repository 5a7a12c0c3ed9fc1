"""
Runs on a host, as the account, in a project: the host's own pi with the extension, a model for it, and what it does.

PI_HOST in the environment is a JSON object:
    extension   a tar of a checkout's part for pi in base64; nothing without it
    flags       more arguments of pi
    mode        rpc (default): the steps; print, json: `prompt` is its prompt; terminal: the steps are those of tmux.py;
                install: print mode for each of `ways`, a command of sh each that installs the extension
    files       {path below the project, or beginning with ~/: text}
    variables   {name: text}, for pi
    steps       what is done, one after the other, each a list:
        tools, CALLS           a prompt: the model calls these tools [NAME, ARGUMENTS], one after the other
        bash, COMMAND, FLAG    the user's `!`, or with a true FLAG `!!`
        prompt, TEXT           a prompt, or a command of pi's
        hear, WORDS            wait until the extension has said so
        shell, COMMAND         a command of the host's, with RUN the run's id, PI_PID pi's process
        parallel, STEPS        steps that are begun together; the answers in their order
        abort, TOOL, ARGUMENTS a prompt of one call, aborted once it has yielded output
        session                another session in the place of this one
        close                  the end of pi's input; its exit code
    before      a command of the host's, before pi is started
    hidden      programs that are not to be found
    first       the flags come before the extension

pi and its node are those of the sandbox's image, copied out of it once. Prints what came of each step, what the extension
has said, the footer's lines, what the canary has seen of pi's own process, what was in the project at the end, pi's exit.
"""

from __future__ import annotations

import base64
import concurrent.futures
import http.server
import json
import os
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from typing import Any

ASKED: dict[str, Any] = json.loads(os.environ.pop("PI_HOST"))
CANARY = os.environ.pop("CANARY")
TMUX = os.environ.pop("TMUX_TEXT")
WORD = "target"
TOOLS = "read,bash,edit,write,grep,find,ls,deploy"
HOME, PROJECT = os.environ["HOME"], os.getcwd()
SECONDS = 90.0
MODULES = "usr/local/lib/node_modules"
PI = f"{MODULES}/@earendil-works"
CHECKOUT = f"{HOME}/ai-sandbox"


def host_pi() -> tuple[str, str]:
    """node and pi's program, from the newest image; copied where they are not there yet."""
    images = ("podman", "images", "--filter", "label=aisb.harness=pi", "--format", "{{.ID}}")
    image = subprocess.run(images, capture_output=True, text=True, check=True).stdout.split()[0]
    version = ("podman", "image", "inspect", "--format", '{{index .Labels "aisb.harness-version"}}', image)
    place = f"{os.environ['XDG_CACHE_HOME']}/host-node/"
    place += subprocess.run(version, capture_output=True, text=True, check=True).stdout.strip()
    if not os.path.exists(place):
        os.makedirs(os.path.dirname(place), exist_ok=True)
        made = tempfile.mkdtemp(dir=os.path.dirname(place))
        create = ("podman", "create", image, "true")
        container = subprocess.run(create, capture_output=True, text=True, check=True).stdout.strip()
        try:
            for path in ("usr/local/bin/node", PI, f"{MODULES}/npm"):
                argv = ("podman", "cp", f"{container}:/{path}", f"{made}/")
                subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
        finally:
            subprocess.run(("podman", "rm", container), check=True, stdout=subprocess.DEVNULL)
        os.rename(made, place)
    return f"{place}/node", f"{place}/@earendil-works/pi-coding-agent/dist/bundle/cli.js"


class Model(http.server.BaseHTTPRequestHandler):
    """Calls the tools that the last prompt lists in JSON, one after the other; then repeats the results as JSON."""

    def do_POST(self) -> None:  # the library's name
        """One turn."""
        messages = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"]
        # Of what a tool has read, an image follows as a user's message of its own.
        last = max(index for index, message in enumerate(messages) if "CALLS " in text_of(message))
        calls = json.loads(text_of(messages[last]).partition("CALLS ")[2])
        results = [text_of(message) for message in messages[last:] if message["role"] == "tool"]
        if len(results) < len(calls):
            name, arguments = calls[len(results)]
            function = {"name": name, "arguments": json.dumps(arguments)}
            delta = {"tool_calls": [{"index": 0, "id": f"c{len(results)}", "type": "function", "function": function}]}
            self.stream({"content": None, **delta}, "tool_calls")
        else:
            self.stream({"content": json.dumps(results)}, "stop")

    def stream(self, delta: dict[str, Any], reason: str) -> None:
        """As OpenAI's format has it."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        choices = [
            {"delta": {"role": "assistant", **delta}, "finish_reason": None},
            {"delta": {}, "finish_reason": reason},
        ]
        for choice in choices:
            event = {
                "id": "1",
                "object": "chat.completion.chunk",
                "created": 0,
                "model": "m",
                "choices": [{"index": 0, **choice}],
            }
            self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


def text_of(message: dict[str, Any]) -> str:
    """A message's text; of an image its type."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") or part.get("image_url", {}).get("url", "")[:22] for part in content)


class Pi:
    """The process, over RPC."""

    def __init__(self, argv: list[str], variables: dict[str, str]) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, env=variables, text=True)
        self.said: list[str] = []
        self.footers: list[str] = []
        self.errors: list[str] = []
        self.events: list[dict[str, Any]] = []
        self.changed = threading.Condition()
        self.ended = False
        self.asked = 0
        threading.Thread(target=self.read, daemon=True).start()
        threading.Thread(target=self.read_errors, daemon=True).start()

    def read(self) -> None:
        """Every event, as it comes."""
        for line in self.process.stdout or ():
            event = json.loads(line)
            with self.changed:
                self.take(event)
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def read_errors(self) -> None:
        """What it says on stderr."""
        self.errors.extend(self.process.stderr or ())

    def take(self, event: dict[str, Any]) -> None:
        """Yes to every question; words and footers are kept."""
        self.events.append(event)
        if event["type"] != "extension_ui_request":
            return
        if event["method"] == "notify":
            self.said.append(event["message"])
        elif event["method"] == "setStatus":
            self.footers.append(event.get("statusText", ""))
        elif event["method"] == "confirm":
            self.said.append(f"asked: {event['title']}")
            self.write({"type": "extension_ui_response", "id": event["id"], "confirmed": True})

    def write(self, message: dict[str, Any]) -> None:
        """One line to it."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def send(self, **message: Any) -> str:
        """A command; its id."""
        self.asked += 1
        self.write({"id": f"q{self.asked}", **message})
        return f"q{self.asked}"

    def wait(self, holds: Any) -> Any:
        """Until it holds: what it gave."""
        with self.changed:
            found: list[Any] = []
            done = self.changed.wait_for(lambda: found.append(holds()) or found[-1] or self.ended, SECONDS)
            if not found[-1]:
                raise SystemExit(
                    f"{'nothing came' if not done else 'pi ended'}: {self.errors} {self.said} {self.events[-3:]}"
                )
            return found[-1]

    def answer(self, asked: str) -> dict[str, Any]:
        """The answer to a command."""
        found: dict[str, Any] = self.wait(
            lambda: next((e for e in self.events if e["type"] == "response" and e.get("id") == asked), None)
        )
        return found

    def since(self, start: int, kind: str) -> list[dict[str, Any]]:
        """Events of a kind."""
        return [event for event in self.events[start:] if event["type"] == kind]

    def run_id(self) -> str:
        """The run that the footer names."""
        named = [text.split()[1].rstrip(":") for text in self.footers if text.startswith("sandbox ")]
        return named[-1] if named else ""


def begin(pi: Pi, step: list[Any]) -> Any:
    """Starts a step; what gives its outcome."""
    kind, *rest = step
    start = len(pi.events)
    if kind == "tools":
        pi.send(type="prompt", message=f"CALLS {json.dumps(rest[0])}")
        return lambda: results(pi, start)
    if kind == "bash":
        asked = pi.send(type="bash", command=rest[0], excludeFromContext=rest[1])
        return lambda: pi.answer(asked).get("data") or pi.answer(asked)
    if kind == "prompt":
        # What comes of it may be there before we are.
        said = len(pi.said)
        asked = pi.send(type="prompt", message=rest[0])
        return lambda: (pi.answer(asked), pi.said[said:])[1]
    if kind == "hear":
        return lambda: pi.wait(lambda: [text for text in pi.said if rest[0] in text])
    if kind == "abort":
        return lambda: aborted(pi, *rest)
    if kind == "session":
        asked = pi.send(type="new_session")
        return lambda: pi.answer(asked)
    if kind == "close":
        return lambda: closed(pi)
    if kind == "parallel":
        begun = [begin(pi, one) for one in rest[0]]
        return lambda: all_of(begun)
    return lambda: shell(pi, rest[0])


def all_of(begun: list[Any]) -> list[Any]:
    """The outcomes of steps that go on at once."""
    with concurrent.futures.ThreadPoolExecutor(len(begun)) as pool:
        return list(pool.map(lambda end: end(), begun))


def results(pi: Pi, start: int) -> list[dict[str, Any]]:
    """What came of each tool call of one prompt."""
    pi.wait(lambda: pi.since(start, "agent_end"))
    return [one_result(event) for event in pi.since(start, "tool_execution_end")]


def one_result(event: dict[str, Any]) -> dict[str, Any]:
    """As the model sees it."""
    content = event["result"]["content"]
    text = "".join(part.get("text", "") or f"<{part['mimeType']}>" for part in content)
    return {"tool": event["toolName"], "error": event["isError"], "text": text}


def aborted(pi: Pi, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """A call that is aborted once it has yielded output: what the model was told, and how long that took."""
    start = len(pi.events)
    pi.send(type="prompt", message=f"CALLS {json.dumps([[tool, arguments]])}")
    partial = lambda: [e for e in pi.since(start, "tool_execution_update") if e["partialResult"]["content"]]  # noqa: E731  # one line
    pi.wait(partial)
    began = time.monotonic()
    pi.send(type="abort")
    pi.wait(lambda: pi.since(start, "tool_execution_end"))
    took = time.monotonic() - began
    pi.wait(lambda: pi.since(start, "agent_end"))
    return {**one_result(pi.since(start, "tool_execution_end")[0]), "seconds": took}


def closed(pi: Pi) -> int:
    """The end of its input, and then its own."""
    if pi.process.stdin and pi.process.poll() is None:
        pi.process.stdin.close()
    return pi.process.wait(SECONDS)


def without(hidden: list[str]) -> str:
    """A PATH with every program but these."""
    place = tempfile.mkdtemp(dir=HOME)
    for directory in os.environ["PATH"].split(":"):
        for name in os.listdir(directory) if os.path.isdir(directory) else ():
            if name not in hidden and not os.path.lexists(f"{place}/{name}"):
                os.symlink(f"{directory}/{name}", f"{place}/{name}")
    return place


def shell(pi: Pi, command: str) -> dict[str, Any]:
    """A command of the host's."""
    variables = os.environ | {"RUN": pi.run_id(), "PI_PID": str(pi.process.pid)}
    done = subprocess.run(
        ("sh", "-c", command), capture_output=True, text=True, env=variables, timeout=SECONDS, check=False
    )
    return {"code": done.returncode, "out": done.stdout, "err": done.stderr}


def prepare(port: int) -> list[str]:
    """pi's configuration, the extension, the files; its arguments."""
    agent = f"{HOME}/.pi/agent"
    os.makedirs(agent, exist_ok=True)
    models = {"id": "m", "input": ["text", "image"]}
    stub = {"baseUrl": f"http://127.0.0.1:{port}/v1", "api": "openai-completions", "apiKey": "x", "models": [models]}
    ASKED.setdefault("files", {})["~/.pi/agent/models.json"] = json.dumps({"providers": {"stub": stub}})
    put_files()
    with open(f"{HOME}/canary.cjs", "w") as file:
        file.write(CANARY)
    own = [flag.replace("~", HOME, 1) for flag in ASKED.get("flags", [])]
    ours = []
    if ASKED.get("extension"):
        os.mkdir(CHECKOUT)
        tar = ("tar", "-xzf", "-", "-C", CHECKOUT)
        subprocess.run(tar, input=base64.b64decode(ASKED["extension"]), check=True)
        ours = [] if ASKED.get("ways") else ["--extension", f"{CHECKOUT}/pi-extension"]
    flags = ["--provider", "stub", "--model", "m", "--tools", TOOLS]
    return [*flags, *(own + ours if ASKED.get("first") else ours + own)]


def put_files() -> None:
    """All that were asked for."""
    for path, text in ASKED["files"].items():
        full = path.replace("~", HOME, 1) if path.startswith("~/") else f"{PROJECT}/{path}"
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as file:
            file.write(base64.b64decode(text[7:]) if text.startswith("base64:") else text.encode())


def seen(log: str) -> dict[str, list[str]]:
    """What the canary has seen: programs, and files of the tools."""
    with open(log) as file:
        lines = [json.loads(line) for line in file]
    os.truncate(log, 0)
    assert "awake" in {what for what, _ in lines}, "the canary slept"
    return {kind: sorted({detail for what, detail in lines if what == kind}) for kind in ("program", "file")}


def main() -> None:
    """Once."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    node, program = host_pi()
    subprocess.run(("sh", "-c", ASKED.get("before", "true")), check=True)
    argv = [node, program, *prepare(server.server_port)]
    log = f"{HOME}/canary.log"
    own = {"CANARY_LOG": log, "CANARY_WORD": WORD, "NODE_OPTIONS": f"--require={HOME}/canary.cjs", "PI_OFFLINE": "1"}
    variables = os.environ | own | ASKED.get("variables", {})
    if ASKED.get("hidden"):
        variables["PATH"] = without(ASKED["hidden"])
    mode = ASKED.get("mode", "rpc")
    if mode == "rpc":
        told = in_rpc([*argv, "--mode", "rpc"], variables)
    elif mode == "terminal":
        told = in_terminal(argv, variables)
    elif mode == "install":
        told = {"ways": [installed(way, node, argv, variables, log) for way in ASKED["ways"]]}
    else:
        told = at_once([*argv, *(["--print"] if mode == "print" else ["--mode", "json"]), ASKED["prompt"]], variables)
    if mode == "install":
        print(json.dumps(told))
        return
    left = sorted(
        os.path.relpath(f"{parent}/{name}", PROJECT) for parent, _, names in os.walk(PROJECT) for name in names
    )
    print(json.dumps({**told, "seen": seen(log), "left": left}))


def at_once(argv: list[str], variables: dict[str, str], stdin: str = "") -> dict[str, Any]:
    """A program from its start to its end."""
    done = subprocess.run(
        argv, capture_output=True, text=True, env=variables, input=stdin, timeout=3 * SECONDS, check=False
    )
    return {"exit": done.returncode, "out": done.stdout, "errors": done.stderr}


def script(name: str, argv: list[str]) -> None:
    """A program of that name, on PATH as `with_bin` has it."""
    os.makedirs(f"{HOME}/bin", exist_ok=True)
    with open(f"{HOME}/bin/{name}", "w") as file:
        file.write(f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n')
    os.chmod(f"{HOME}/bin/{name}", 0o755)


def with_bin(variables: dict[str, str]) -> dict[str, str]:
    """The variables with such programs on PATH."""
    return variables | {"PATH": f"{HOME}/bin:{variables['PATH']}"}


def in_terminal(argv: list[str], variables: dict[str, str]) -> dict[str, Any]:
    """The steps, in a shell that has a program `pi`, on a screen of 100 columns."""
    script("pi", argv)
    with open(f"{HOME}/tmux.py", "w") as file:
        file.write(TMUX)
    return at_once(["python3", f"{HOME}/tmux.py", "100", "40"], with_bin(variables), json.dumps(ASKED["steps"]))


def installed(way: str, node: str, argv: list[str], variables: dict[str, str], log: str) -> dict[str, Any]:
    """One way to install it, beside nothing else that was installed; what pi said then, and the canary."""
    script("pi", argv[:2])
    script("npm", [node, f"{os.path.dirname(node)}/npm/bin/npm-cli.js"])
    script("node", [node])
    shutil.rmtree(f"{HOME}/.pi")
    put_files()
    quiet = {name: value for name, value in with_bin(variables).items() if name != "NODE_OPTIONS"}
    done = at_once(["sh", "-ec", way], quiet | {"CHECKOUT": CHECKOUT})
    told = at_once([*argv, "--print", ASKED["prompt"]], variables)
    return {"install": done, **told, "seen": seen(log)}


def in_rpc(argv: list[str], variables: dict[str, str]) -> dict[str, Any]:
    """The steps, and the end of pi's input."""
    pi = Pi(argv, variables)
    done = [begin(pi, step)() for step in ASKED.get("steps", [])]
    if pi.process.stdin and pi.process.poll() is None:
        pi.process.stdin.close()
    code = pi.process.wait(SECONDS)
    return {
        "steps": done,
        "said": pi.said,
        "footers": pi.footers,
        "exit": code,
        "errors": "".join(pi.errors),
        "run": pi.run_id(),
    }


if __name__ == "__main__":
    main()
