"""Where a program is: on PATH in a good version, in the cache, or got in one of the ways its `Tool` names."""

import functools
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

from deskyard.errors import CommandError, ConfigError, DeskyardError, HostError
from deskyard.host.command import run
from deskyard.host.lock import alone
from deskyard.host.places import places
from deskyard.host.progress import say, step
from deskyard.host.toolchain.go_build import build
from deskyard.host.toolchain.release import download
from deskyard.host.toolchain.tool import TEST_TOOLS, TOOLS, FoundTool, Source, Tool

INSTALL_SECONDS = 900


def show() -> list[FoundTool | Tool]:
    """Every tool: as found, or as it would be got."""
    return [find(name) or tool for name, tool in TOOLS.items()]


@functools.cache
def locate(name: str) -> Path:
    """The path of a tool that is there; raises `HostError` if it has to be got first."""
    found = find(name)
    if found is None:
        raise HostError("tool", name, "is not on this machine", f"run ./inv toolchain.get --tool {name}")
    return found.path


def find(name: str) -> FoundTool | None:
    """The tool on PATH if its version is good, else the cached one, else nothing."""
    tool = _tool(name)
    on_path = shutil.which(tool.file)
    if on_path and (version := _version(tool, Path(on_path))) and _accepts(tool, version):
        return FoundTool(name, version, "PATH", Path(on_path))
    sources: tuple[Source, ...] = ("release", "go modules")
    for source in sources:
        path = _cached(tool, source)
        if path.exists():
            return FoundTool(name, tool.version, source, path)
    return None


def get(name: str, sha256: str | None = None) -> FoundTool:
    """Find the tool or get it: official release, then Go modules, then the distribution's package.

    `sha256` is the release's checksum where none is pinned. Raises `HostError` that says what each way answered.
    """
    found = find(name)
    if found is not None:
        return found
    tool = _trusting(_tool(name), sha256)
    # Two runs would build in the same folder; the second one finds what the first one got.
    with alone(f"toolchain-{name}"):
        return find(name) or _got(tool)


def _got(tool: Tool) -> FoundTool:
    name = tool.name
    answers: list[str] = []
    for source, way in (
        ("official release", _from_release),
        ("Go modules", _from_go),
        ("distribution", _from_distribution),
    ):
        try:
            with step(f"get {name} {tool.version}: {source}"):
                found = way(tool)
        except DeskyardError as error:
            # Which program a way lacks is the whole of its answer.
            answer = f"{error.value} {error.reason}" if error.field == "program" else error.reason
            answers.append(f"{source}: {answer}")
            say(f"    {source}: {answer.splitlines()[0]}")
            continue
        if found is not None:
            locate.cache_clear()
            return found
        answers.append(f"{source}: has none")
    reason = "could not be got\n" + "\n".join(answers)
    raise HostError("tool", name, reason, f"install {name} >= {'.'.join(map(str, tool.minimum))} and put it on PATH")


def _tool(name: str) -> Tool:
    tools = {**TOOLS, **TEST_TOOLS}
    if name not in tools:
        raise ConfigError("tool", name, "is not known", f"choose one of: {', '.join(tools)}")
    return tools[name]


def _trusting(tool: Tool, sha256: str | None) -> Tool:
    if sha256 is None:
        return tool
    if tool.release is None:
        raise ConfigError("sha256", sha256, f"is of no use: {tool.name} has no release", "leave it out")
    if tool.release.sha256 is not None:
        raise ConfigError("sha256", sha256, f"is pinned for {tool.name}", "leave it out")
    if not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise ConfigError("sha256", sha256, "is no SHA-256 checksum", "give 64 digits, 0-9 and a-f")
    return replace(tool, release=replace(tool.release, sha256=sha256))


def _cached(tool: Tool, source: Source) -> Path:
    return places().toolchain / f"{tool.name}-{tool.version}-{source.replace(' ', '-')}" / tool.file


def _version(tool: Tool, program: Path) -> str | None:
    try:
        text = run([str(program), tool.version_argument], timeout=60, env={"CHECKPOINT_DISABLE": "1"}).stdout
    except DeskyardError:
        return None
    match = re.search(r"v?(\d+\.\d+\.\d+)", text)
    return match.group(1) if match else None


def _accepts(tool: Tool, version: str) -> bool:
    numbers = tuple(int(part) for part in version.split("."))
    return tool.minimum <= numbers < tool.below


def _from_release(tool: Tool) -> FoundTool | None:
    if tool.release is None:
        return None
    path = download(tool.release, _cached(tool, "release").parent)
    return FoundTool(tool.name, tool.version, "release", path)


def _from_go(tool: Tool) -> FoundTool | None:
    if tool.go_module is None:
        return None
    target = _cached(tool, "go modules")
    build(tool.go_module, tool.version, target)
    return FoundTool(tool.name, tool.version, "go modules", target)


def _from_distribution(tool: Tool) -> FoundTool | None:
    if tool.distribution_package is None:
        return None
    if shutil.which("apt-get") is None:
        raise HostError("apt-get", None, "is not on this machine", "use a Debian or Ubuntu machine")
    as_root = [] if os.geteuid() == 0 else ["sudo"]
    argv = [
        "env",
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "install",
        "-qq",
        "-y",
        "--no-install-recommends",
    ]
    run([*as_root, *argv, tool.distribution_package], timeout=INSTALL_SECONDS)
    found = find(tool.name)
    if found is None:
        reason = f"the distribution's version is not in {tool.minimum} to {tool.below}"
        raise CommandError("package", tool.distribution_package, reason, "install the official release")
    return found
