# SPDX-License-Identifier: Apache-2.0
"""A launch as text: every file, link and command of it."""

import shlex

from engines.launch import Command, Launch


def plan_text(launch: Launch) -> str:
    """What a runner would write and run, in that order."""
    parts = [f"## file {name}\n{text}" for name, text in launch.files.items()]
    parts += [f"## link {name} -> {target}" for name, target in launch.links.items()]
    for command in launch.prepare:
        title = f"## once, makes {command.creates}" if command.creates else "## before each start"
        parts.append(f"{title}\n{_line(command)}")
    if launch.serve.argv:
        parts.append(f"## serve\n{_line(launch.serve)}")
    return "\n".join([*parts, f"## ready when {launch.url}{launch.ready_path} answers 200\n"])


def _line(command: Command) -> str:
    settings = [f"{key}={shlex.quote(value)}" for key, value in sorted(command.env.items())]
    return " ".join([*settings, shlex.join(command.argv)])
