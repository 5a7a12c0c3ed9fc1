"""What the parts of the bench share: commands, clients, memory, and how a part says what it found."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from tests.bench.figures import lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tests.bench.figures import Figure

HERE = os.path.dirname(os.path.abspath(__file__))
# Beside the tree, where tests/bench/peers has put them.
PEERS = os.path.normpath(f"{HERE}/../../../bench")
MITMPROXY = f"{PEERS}/bin/mitmdump"
ADDRESS = os.environ.get("BENCH_ADDRESS", "198.51.100.64")
RULED, SPLICED, INJECTED = "ruled.bench.test", "passed.bench.test", "injected.bench.test"
PROXY, SOCKET = "127.0.0.1:3128", "/run/aisb/gate/gate.sock"
# The last rule that matches counts.
RULES = (
    ("DENY", "*", "/.*"), ("ALLOW", "GET", "/repos/[^/]+/[^/]+/issues"), ("ALLOW", "GET", "/repos/[^/]+/[^/]+/pulls"),
    ("ALLOW", "POST", "/repos/[^/]+/[^/]+/issues"), ("ALLOW", "GET", "/user"), ("ALLOW", "GET", "/search/.*"),
    ("DENY", "*", "/search/code"), ("ALLOW", "GET", "/bulk/.*"), ("ALLOW", "GET", "/stream/.*"), ("ALLOW", "HEAD", "/.*"),
)  # fmt: skip
ALLOWED, FORBIDDEN = "/repos/some/thing-NUMBER/issues", "/repos/some/thing/secrets"
# Seconds: a gate of the bench ends soon after it.
IDLE = "5"
CLIENT = ("-I", "-S", "/project/client.py")


class Speaker:
    """A client of the bench, which does one thing at a time."""

    def __init__(self, argv: Sequence[str], environment: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | (environment or {})
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *unused: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    @property
    def pid(self) -> int:
        """Of what was started."""
        return self._process.pid

    def tell(self, do: str, **job: object) -> None:
        """Begin something, for `hear`."""
        assert self._process.stdin is not None
        print(json.dumps({"do": do, "path": ALLOWED, **job}), file=self._process.stdin, flush=True)

    def hear(self) -> Any:
        """What was measured; the bench ends where nothing could be."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"error": "the client has ended"}
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["found"]

    def ask(self, do: str, **job: object) -> Any:
        """Both."""
        self.tell(do, **job)
        return self.hear()


def run(*argv: str, codes: Iterable[int] = (0,)) -> str:
    """A command that has to succeed; what it printed."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, text=True)
    if done.returncode not in codes:
        raise RuntimeError(f"{' '.join(argv)} exited {done.returncode}: {done.stderr}{done.stdout}")
    return done.stdout


def seconds(*argv: str, codes: Iterable[int] = (0,)) -> float:
    """How long a command takes."""
    began = time.monotonic()
    run(*argv, codes=codes)
    return time.monotonic() - began


def milliseconds(*argv: str) -> float:
    """The same, in milliseconds."""
    return 1000 * seconds(*argv)


def write(path: str, text: str) -> str:
    """A file, and its path. Whoever reads it meanwhile finds all of it."""
    path = os.path.expanduser(path)
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(f"{path}.new", path)
    return path


def policy() -> str:
    """The path of the policy, outside the project."""
    rules = "".join(f"      - {{action: {a}, path: '{path}', method: '{method}'}}\n" for a, method, path in RULES)
    # The last name makes it a gate of its own.
    names = f"[exact:{SPLICED}, 'exact:{SPLICED}:5432', exact:gate-{os.getpid()}.bench.test]"
    return write("~/bench.yaml", f"allow: {names}\nnetworkPolicies:\n  - host: {RULED}\n    policies:\n{rules}")


def sandbox_image() -> str:
    """The image that aisb uses here, by its own preview."""
    shown = run("aisb", "--net", "none", "--dry-run", "--", "true")
    return next(word for word in shown.split() if word.startswith("localhost/aisb-sandbox:"))


def put_client() -> None:
    """The client, in the project. Whoever starts it meanwhile finds all of it."""
    shutil.copy(f"{HERE}/client.py", "client.py.new")
    os.replace("client.py.new", "client.py")


def in_sandbox(*flags: str, environment: dict[str, str] | None = None) -> Speaker:
    """The client in a sandbox, with the policy unless flags say something else."""
    put_client()
    flags = flags or ("--policy", policy())
    return Speaker(["aisb", "-q", "--gate-idle", IDLE, *flags, "--", "python3", *CLIENT], environment)


def without() -> Speaker:
    """The client in a container of the same image, with the host's own network."""
    put_client()
    mount = f"type=bind,src={os.path.abspath('client.py')},dst=/client.py,ro"
    argv = ["podman", "run", "--rm", "--interactive", "--network", "host", "--mount", mount]
    return Speaker([*argv, "--entrypoint", "/usr/bin/python3", sandbox_image(), "-I", "-S", "/client.py"])


def containers(prefix: str) -> set[str]:
    """The containers that go on and whose name begins like that."""
    return set(run("podman", "ps", "--filter", f"name=^{prefix}", "--format", "{{.Names}}").split())


def processes(container: str) -> dict[int, str]:
    """The processes of a container, as the host numbers them, each with its arguments."""
    rows = run("podman", "top", container, "hpid", "args").splitlines()[1:]
    return {int(row.split()[0]): row.partition(" ")[2].strip() for row in rows}


def memory(pids: Iterable[int]) -> float:
    """Megabytes that processes hold, each shared page divided by those who share it (PSS). One that has ended holds none."""
    files = [f"/proc/{pid}/smaps_rollup" for pid in pids]
    text = subprocess.run(
        ("podman", "unshare", "cat", *files), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, check=False, text=True,
    ).stdout  # fmt: skip
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) / 1024


def descriptors(pid: int) -> int:
    """How many a process has open."""
    return len(run("podman", "unshare", "ls", f"/proc/{pid}/fd").split())


def processor_time(pid: int) -> float:
    """Milliseconds of a core that a process has had so far. Counted in hundredths of a second: ask about what takes longer."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        words = file.read().rpartition(")")[2].split()
    return 1000 * (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def one(pids: dict[int, str], words: str) -> int:
    """The process whose arguments have these words."""
    (pid,) = [pid for pid, argv in pids.items() if words in argv]
    return pid


def settled(look: Callable[[], int], patience: float = 60.0) -> int:
    """What `look` says once it has said the same for some seconds: a busy machine takes its time to close what is over."""
    deadline = time.monotonic() + patience
    last, since = look(), time.monotonic()
    while time.monotonic() < deadline and time.monotonic() - since < 4:
        time.sleep(0.2)
        found = look()
        if found != last:
            last, since = found, time.monotonic()
    return last


def turns(count: int, sides: dict[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Each side in turn, so often: whatever the machine does meanwhile, it does to all of them."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(count):
        for name, measure in sides.items():
            found[name].append(measure())
    return found


class Found(NamedTuple):
    """What a part has measured, and of whom it could not measure anything, with the reason."""

    figures: list[Figure]
    absent: dict[str, str] = {}  # noqa: RUF012  # a NamedTuple's default, and nobody writes into it


def main(part: Callable[[int], Found], pairs: int = 5) -> None:
    """Measure and print: a table, and exit 1 where a target is missed; with `--json` one object, and exit 0."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--pairs", type=int, default=pairs, help="rounds (at least five for figures to quote)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    before = os.getloadavg()[0]
    began = time.monotonic()
    figures, absent = part(options.pairs)
    if options.json:
        answer = {
            "pairs": options.pairs,
            "seconds": round(time.monotonic() - began),
            "load": [before, os.getloadavg()[0]],
        }
        print(json.dumps(answer | {"figures": [figure.as_json() for figure in figures], "absent": absent}))
        return
    print("\n".join([*lines(figures), *(f"  {name}: {reason}" for name, reason in absent.items())]))
    sys.exit(bool(absent) or not all(figure.is_met for figure in figures))
