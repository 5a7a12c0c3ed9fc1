"""
What else of a project may be run on the host, sooner or later, by a person or a tool that trusts the project.

None of it is protected: to write these files is what an agent is there for. What changed is told at the end of a run.
"""

from __future__ import annotations

import re

# By name, wherever they are.
_NAMES = frozenset(
    [
        ".dir-locals.el",
        ".exrc",
        ".gdbinit",
        ".gitattributes",
        ".gitlab-ci.yml",
        ".gitmodules",
        ".justfile",
        ".lldbinit",
        ".mise.toml",
        ".npmrc",
        ".nvimrc",
        ".pnpmfile.cjs",
        ".pre-commit-config.yaml",
        ".pre-commit-config.yml",
        ".tool-versions",
        ".travis.yml",
        ".vimrc",
        ".yarnrc",
        ".yarnrc.yml",
        "CMakeLists.txt",
        "Dockerfile",
        "GNUmakefile",
        "Gemfile",
        "Jenkinsfile",
        "Justfile",
        "Makefile",
        "Procfile",
        "Rakefile",
        "Taskfile.yaml",
        "Taskfile.yml",
        "Tiltfile",
        "Vagrantfile",
        "azure-pipelines.yml",
        "bitbucket-pipelines.yml",
        "build.gradle",
        "build.gradle.kts",
        "build.rs",
        "compose.yaml",
        "compose.yml",
        "configure",
        "conftest.py",
        "default.nix",
        "docker-compose.yaml",
        "docker-compose.yml",
        "flake.nix",
        "gradlew",
        "justfile",
        "lefthook.yaml",
        "lefthook.yml",
        "makefile",
        "mise.toml",
        "mvnw",
        "noxfile.py",
        "package.json",
        "pom.xml",
        "pyproject.toml",
        "pyvenv.cfg",
        "settings.gradle",
        "setup.cfg",
        "setup.py",
        "shell.nix",
        "sitecustomize.py",
        "tasks.py",
        "tox.ini",
        "usercustomize.py",
    ]
)
_PATTERNS = re.compile(r".+\.pth|\.lintstagedrc.*|.+\.config\.([cm]?[jt]s)")
# With all that is in them.
DIRECTORIES = (
    ".buildkite",
    ".cargo",
    ".circleci",
    ".claude",
    ".cursor",
    ".devcontainer",
    ".github/actions",
    ".github/workflows",
    ".idea",
    ".run",
    ".vscode",
    ".yarn/releases",
    ".zed",
    "node_modules/.bin",
)
# Of these a virtual environment has its own, wherever it is.
OF_AN_ENVIRONMENT = ("bin", "Scripts")


def may_be_run(name: str) -> bool:
    """Whether a file of that name is run, or says what is."""
    return name in _NAMES or bool(_PATTERNS.fullmatch(name))
