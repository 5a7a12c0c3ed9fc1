"""A warm start parses nothing: what parsing needs is not even imported."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from aisb.domain.source_files import SourceFile
from aisb.domain.wanted import Wanted
from aisb.effects.make_plan import gate_key
from aisb.effects.plan import Question, digest

if TYPE_CHECKING:
    from pathlib import Path

START = """
import os, sys
from aisb.cli.run import question_of, wish_of
from aisb.cli.request import read_request
from aisb.cli.splitter import split
from aisb.effects.plan import find_plan
from aisb.effects.situation import resolve_project
from aisb.effects.sources import read_sources
from aisb.effects.state import preview_directories

where = preview_directories(os.environ)
taken = split(["--policy", "../own.yaml"], frozenset())
asked = read_request(taken, os.environ)
project = resolve_project(asked.project, os.environ, where)
sources = read_sources(wish_of(asked, project), where, None)
request = read_request(taken, os.environ, sources.layers)
question = question_of(request, sources, project, "pasta")
assert find_plan(where.cache, question) is None
print(len(question.allow_files), len(question.policy_files), request.wanted.net, bool(sources.policy_directory))
print(*sorted((sys.modules.keys() | {name.partition(".")[0] for name in sys.modules}) & set(sys.argv[1:])))
"""
SLOW = ("yaml", "jinja2", "typer", "click", "idna", "publicsuffixlist", "podman", "asyncio", "difflib")
# The engine judges in the gate, and what was refused is explained at the end.
LATER = (
    "aisb.domain.rules",
    "aisb.domain.egress",
    "aisb.render.denials",
    "aisb.effects.file_report",
    "ctypes",
    "tempfile",
    "shutil",
    "urllib",
    # Without a pi on the host.
    "aisb.cli.pi",
    "aisb.effects.pi",
    "aisb.render.pi",
)
PI = """
import os, sys
from aisb.cli.request import read_request
from aisb.cli.run import host_pi
from aisb.cli.splitter import split
from aisb.domain.pi_values import Chosen, ImagePi
from aisb.effects.plan import Plan

request = read_request(split(["--allow", "a.test"], frozenset()), os.environ)
found = host_pi(request, "")
if found:
    from aisb.cli.pi import along
    from aisb.effects.pi import bridged
    from aisb.render.pi import seed_lines

    policy = '{"addresses":[],"host_ports":[],"injections":[],"learn":false,"names":[],"rules":[],"version":4}\\n'
    plan = Plan("allow", "", "", "", 1, 0, (), "", "", "", {"policy.json": policy}, {}, "", "", False, ())
    pi = ImagePi("@earendil-works/pi-coding-agent", "1")
    made = bridged(os.environ["HOME"], "", found, pi, plan, request.pi, Chosen())
    print(*along(request, made, "allow", "/h", {}, os.environb).files)
print(*sorted((sys.modules.keys() | {name.partition(".")[0] for name in sys.modules}) & set(sys.argv[1:])))
"""


def test_a_start_with_every_kind_of_file_imports_no_parser(tmp_path: Path) -> None:
    """The first time the configuration is parsed; from then on it is not, and entries and rules never are."""
    (tmp_path / "p" / ".ai-sandbox").mkdir(parents=True)
    (tmp_path / "p/.ai-sandbox/allow").write_text("a.test\n")
    (tmp_path / "p/.ai-sandbox/policy.yaml").write_text("allow: [b.test]\n")
    (tmp_path / "p/.ai-sandbox/config.yaml").write_text("allow: [c.test]\n")
    (tmp_path / "own.yaml").write_text("allow: [d.test]\n")
    (tmp_path / "home/.config/ai-sandbox").mkdir(parents=True)
    (tmp_path / "home/.config/ai-sandbox/config.yaml").write_text("allow: [e.test]\n")
    environ = {"HOME": str(tmp_path / "home"), "PATH": os.defpath}
    trust = (
        "import sys; from aisb.effects.trust import write_record as w; from aisb.effects.safe_files import "
        "read_project_directory as r; p = sys.argv[1]; w(sys.argv[2], p, r(p).files)"
    )
    state = str(tmp_path / "home/.local/state/ai-sandbox")

    def start(*command: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", *command],
            cwd=tmp_path / "p",
            env=environ,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    start(trust, str(tmp_path / "p"), state)
    cold, warm = start(START, *SLOW), start(START, *SLOW, *LATER)

    assert cold.splitlines() == ["1 2 allow True", "yaml"]
    assert warm.splitlines() == ["1 2 allow True", ""]


def test_of_a_pi_on_the_host_a_warm_start_reads_and_rewrites_nothing(tmp_path: Path) -> None:
    """The first time its files are parsed and the hosts in them judged. Without a pi nothing of it is imported."""
    rewriting = ("aisb.domain.pi_bridge", "aisb.domain.pi_models", "aisb.domain.pi_json", *SLOW, *LATER[:-3])

    def start() -> list[str]:
        argv = [sys.executable, "-c", PI, "aisb.cli.pi", *rewriting]
        environ = {"HOME": str(tmp_path), "PATH": os.defpath}
        done = subprocess.run(argv, cwd=tmp_path, env=environ, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    without = start()
    (tmp_path / ".pi/agent").mkdir(parents=True)
    (tmp_path / ".pi/agent/settings.json").write_text('{"theme": "dark"}')
    cold, warm = start(), start()

    assert without == [""]
    assert "aisb.domain.pi_bridge" in cold[1]
    assert warm == [".pi/agent/models.json .pi/agent/settings.json", "aisb.cli.pi"]


DECIDE = """
import os, sys, time
from aisb.domain.base_image import parse_base_image
from aisb.domain.freshness import Freshness, stamp
from aisb.domain.images import NodePin, PinnedBase
from aisb.domain.wanted import Wanted
from aisb.effects.pins import read_pins, this_platform, write_base_pin, write_node_pin
from aisb.effects.plan import Plan, Question, images_of, keep_plan, note_images
from aisb.effects.progress import Silence
from aisb.effects.situation import need_plan
from aisb.effects.state import Directories
from aisb.effects.workshop import Workshop

cache = sys.argv[1]
base = parse_base_image("docker.io/library/ubuntu:24.04")
pin = PinnedBase(base.text, "docker.io/library/ubuntu@sha256:" + "0" * 64, "sha256:" + "0" * 64, time=stamp(time.time()))
write_base_pin(cache, base, pin)
write_node_pin(cache, this_platform(), NodePin("22.23.3", "npm", (("a.tgz", "0" * 64), ("b.tgz", "0" * 64))))
wanted = Wanted("allow", (), (), (), base.text, "", "", 600)
question = Question(wanted, "", "/p", "home", "user", "", "pasta", (), "", "")
plan = Plan(*["allow", "user", "home", "", 1, 0, (), "s:1", "g:1", "", {}, {}, "key", "", False, ()])
keep_plan(cache, question._replace(pin=read_pins(cache, base.text)), plan)
note_images(cache, images_of(plan))
before = sys.modules.keys() | set()
# A runner that does not exist, so nothing can be run; and the report would fail too.
shop = Workshop("podman", Directories("", cache, "", ""), {}, None, None, time.time())
durations = []
for _ in range(50):
    began = time.perf_counter()
    found = need_plan(question, shop)
    durations.append(time.perf_counter() - began)
assert found.sandbox_image == plan.sandbox_image
print(min(durations) < 0.010, *sorted(sys.modules.keys() - before))
"""


def test_that_nothing_needs_building_is_decided_in_ten_milliseconds(tmp_path: Path) -> None:
    """From the records alone: no process is started, nothing is imported, and the fastest of fifty is in time."""
    done = subprocess.run(
        [sys.executable, "-c", DECIDE, str(tmp_path)], capture_output=True, text=True, check=True, env={"HOME": "/"}
    )

    assert done.stdout == "True\n"


files = st.lists(st.builds(SourceFile, st.sampled_from(["a", "b"]), st.text(max_size=3)), max_size=3).map(tuple)
questions = st.builds(
    lambda allow, policy: Question(
        Wanted("allow", (), (), (), "", "", "", 600), "", "/p", "", "", "", "", (), "", "", allow, policy
    ),
    files,
    files,
)


@given(questions, questions)
def test_no_change_of_a_file_is_missed(left: Question, right: Question) -> None:
    """A plan that was kept answers a question only with the very same files, bytes, names and order."""
    assert (digest(left) == digest(right)) == (left == right)


def test_in_another_network_a_run_has_another_gate() -> None:
    """(C50) A gate goes on asking the name servers that were there when it started."""
    keys = {gate_key({}, "image", "pasta", servers) for servers in ((), ("192.0.2.53",), ("192.0.2.53", "192.0.2.54"))}

    assert len(keys) == 3
