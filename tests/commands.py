"""
The commands that README and recipes show, and how each is executed by a test.

A command is a line of a block that is fenced as `sh`, or one after `$ ` in one that is fenced as `console`. A line without
a row in `HOW` fails a unit test, and so does a row without a line.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/recipes.md", "docs/pi.md")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Nothing on these pages has a `#` after a blank within quotes.
_COMMENT = re.compile(r"\s+#\s.*$")


class Block(NamedTuple):
    """A block's commands, under the nearest title above it."""

    page: str
    title: str
    commands: tuple[str, ...]

    @property
    def script(self) -> str:
        """All of it, for a shell."""
        return "".join(f"{command}\n" for command in self.commands)


class How(NamedTuple):
    """How a command is executed: by a unit test as a preview or as it is, by an end-to-end test, or why not at all."""

    kind: str
    what: str = ""


# `aisb` with --dry-run put in front, by test_commands.py, in a shell with the files and variables that it takes.
PREVIEW = How("preview")
# As it stands, there.
AS_IT_IS = How("as it is")


def by(test: str) -> How:
    """An end-to-end test that types it, or the same with names of its own: `file: function`, without `test_`."""
    return How("end to end", test)


def not_here(why: str) -> How:
    """Nothing that a test can do."""
    return How("not", why)


def blocks(page: str) -> list[Block]:
    """The blocks of a page that hold commands, in order."""
    text = (ROOT / page).read_text()
    return [
        Block(page, _title(text[: match.start()]), tuple(found))
        for match in _BLOCK.finditer(text)
        if (found := _commands(match[1], match[2]))
    ]


def of_section(page: str, title: str) -> list[Block]:
    """The blocks below a title."""
    return [block for block in blocks(page) if block.title == title]


def _title(before: str) -> str:
    return re.findall(r"^#+ (.*)$", before, re.MULTILINE)[-1]


def _commands(kind: str, text: str) -> list[str]:
    lines = text.splitlines()
    if kind == "console":
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    elif kind != "sh":
        return []
    return [command for line in lines if (command := _COMMENT.sub("", line).strip()) and not command.startswith("#")]


_INSTALL = by("install: from_the_first_installation_to_the_last_trace")
_RECIPES = by("recipes: the_recipes_do_what_they_say")
_README = by("recipes: the_readmes_lines_do_what_it_says")
_GATEWAY = by("pi_recipes: a_gateway_of_your_own")
_LOCAL = by("pi_recipes: a_model_on_this_machine")
_VENDOR = by("pi_recipes: a_vendors_api")
_WORKTREE = by("files_mounts: a_worktree_and_a_submodule_work_once_their_repository_was_seen")
_CARRIED = by("images_updates: images_are_carried_to_a_machine_without_a_network")

HOW: dict[str, dict[str, How]] = {
    "README.md": {
        "cd ~/src/billing-api": AS_IT_IS,
        "aisb --allow llm.example.com --env AI_API_TOKEN": PREVIEW,
        "make demo": by("demo: the_real_agent_works_and_everything_is_taken_back"),
        "make test": not_here("it is what executes this"),
        "./install.sh --deps": _INSTALL,
        "./install.sh --alias pi": _INSTALL,
        ". config/completions/aisb.bash": AS_IT_IS,
        "aisb doctor": by("doctor: where_runs_work_nothing_is_red"),
        "aisb doctor --deep": by("doctor: everything_that_is_tried_inside_is_held_off_and_nothing_is_left"),
        'aisb --allow llm.example.com --env AI_API_TOKEN -p "fix the tests"': PREVIEW,
        "aisb --allow git.example.com,git.example.com:22 -- git fetch": PREVIEW,
        "aisb --allow @npm -- npm ci": _RECIPES,
        "aisb --net none --shell": PREVIEW,
        "aisb --allow llm.example.com -- curl http://other.example.com/": _README,
        "aisb allow packages.example.com": _README,
        "aisb deny packages.example.com": _README,
        "cat ~/.config/ai-sandbox/config.yaml": AS_IT_IS,
        "cat .ai-sandbox/allow": AS_IT_IS,
        "aisb": PREVIEW,
        "mkdir -p ~/.pi/agent && cp config/examples/models.json ~/.pi/agent": AS_IT_IS,
        'aisb --allow llm.example.com --pi-inject -p "fix the tests"': PREVIEW,
        "aisb --mount ~/reference --mount ~/datasets:/data --mount ~/out:rw --net none --shell": PREVIEW,
    },
    "docs/recipes.md": {
        "export AI_API_TOKEN=$(cat ~/token)": AS_IT_IS,
        "aisb --allow exact:llm.example.com --pi-inject -p 'fix the tests'": PREVIEW,
        "export ANTHROPIC_BASE_URL=https://llm.example.com ANTHROPIC_API_KEY=$(cat ~/token)": AS_IT_IS,
        "aisb --harness claude --allow exact:llm.example.com --env ANTHROPIC_BASE_URL --inject "
        "ANTHROPIC_API_KEY@llm.example.com:X-Api-Key -p 'fix the tests'": PREVIEW,
        "aisb --allow host:11434 -- curl -sS http://localhost:11434/v1/models": _RECIPES,
        "aisb --publish 3000 --allow api.example.com -- npm run dev": PREVIEW,
        "aisb --detach --publish 8080:3000 --net none -- python3 -m http.server --bind 127.0.0.1 3000": _RECIPES,
        "curl -s --retry 9 --retry-all-errors http://127.0.0.1:8080/": _RECIPES,
        "aisb stop": _RECIPES,
        "export NPM_TOKEN=$(cat ~/token)": _RECIPES,
        "aisb --allow exact:packages.example.com --inject NPM_TOKEN@packages.example.com -- npm ci": _RECIPES,
        "aisb init": AS_IT_IS,
        "aisb --allow @npm -- npm ci": _RECIPES,
        "export PGPASSWORD=$(cat ~/token)": AS_IT_IS,
        "aisb --install postgresql-client --allow exact:db.example.com:5432,10.20.0.5:5432 --env PGPASSWORD -- "
        "psql -h db.example.com -U app -c 'select 1'": PREVIEW,
        "aisb --install postgresql-client --allow host:5432 --env PGPASSWORD -- psql -h localhost -U app -c 'select 1'": PREVIEW,
        "export GIT_TOKEN=$(cat ~/token)": _RECIPES,
        "aisb --allow exact:git.example.com --inject GIT_TOKEN@git.example.com -- git push origin HEAD": _RECIPES,
        "aisb --allow exact:git.example.com:22 --mount ~/.ssh/deploy --mount ~/.ssh/known_hosts --env "
        "GIT_SSH_COMMAND='ssh -i ~/.ssh/deploy' -- git push origin HEAD": by(
            "recipes: git_pushes_over_ssh_as_the_recipe_says"
        ),
        'aisb --allow exact:git.example.com:22 --mount "$SSH_AUTH_SOCK:/mnt/agent" --mount ~/.ssh/known_hosts --env '
        "SSH_AUTH_SOCK=/mnt/agent -- git fetch": PREVIEW,
        "aisb --project ~/src/mono --net none -- sh -c 'cd services/web && git status --short'": _RECIPES,
        "aisb --project ~/src/mono/services/web --net none -- ls": _RECIPES,
        "aisb --project ~/src/mono/services/web --mount ~/src/mono/libraries:/libraries --net none -- ls /libraries": _RECIPES,
        "git worktree add ../billing-fix -b fix": AS_IT_IS,
        "cd ../billing-fix": AS_IT_IS,
        "aisb trust .git": _WORKTREE,
        "aisb --net none -- git status --short": _WORKTREE,
        "aisb doctor --strict": by("doctor: where_runs_work_nothing_is_red"),
        "aisb build": by("images_updates: inspect_shows_what_the_images_are"),
        'aisb --quiet --timeout 30m --require-limits --trust-once "$TRUSTED" --allow exact:packages.example.com '
        "-- npm test": PREVIEW,
        'aisb logs --summary --markdown >>"$GITHUB_STEP_SUMMARY"': AS_IT_IS,
        "export PROXY_LOGIN=$(cat ~/token)": by("policy_proxy: a_user_names_the_proxy_once"),
        "aisb --proxy http://proxy.example.com:3128 --proxy-auth PROXY_LOGIN --ca-bundle ~/company.pem --allow "
        "llm.example.com -- curl -sS https://llm.example.com/": by("policy_proxy: a_user_names_the_proxy_once"),
        "podman save -m -o aisb-images.tar $(aisb build -q)": _CARRIED,
        "podman load -i aisb-images.tar": _CARRIED,
        "aisb --pull never --net none --shell": PREVIEW,
        "aisb --pull never --allow host:11434 -- curl -sS http://localhost:11434/v1/models": _RECIPES,
        "aisb --install chromium --allow @npm --env PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 -- npm ci": not_here(
            "a preset of a registry is read off the image, and one with a browser is large: by hand"
        ),
        "aisb --install chromium --net none -- chromium --headless --no-sandbox --dump-dom file:///project/page.html": PREVIEW,
    },
    "docs/pi.md": {
        "export AI_API_TOKEN=$(cat ~/token)": _GATEWAY,
        "aisb --allow exact:llm.example.com --pi-inject -p 'What is in this project? `ls`'": _GATEWAY,
        "export LOCAL_KEY=unused": _LOCAL,
        "aisb --allow host:8080 --pi-token-env LOCAL_KEY -p 'What is in this project? `ls`'": _LOCAL,
        "export ANTHROPIC_API_KEY=$(cat ~/token)": _VENDOR,
        "aisb --allow @anthropic --pi-token-env ANTHROPIC_API_KEY --pi-inject -p 'What is in this project? `ls`'": _VENDOR,
    },
}
