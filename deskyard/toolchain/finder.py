"""Where a program is: on PATH in a good version, in the cache, or got in one of the ways its `Tool` names."""

import functools
import os
import re
import shutil
from pathlib import Path

from deskyard.errors import CommandError, ConfigError, DeskyardError, HostError
from deskyard.run.command import run
from deskyard.run.places import places, tree
from deskyard.run.progress import say, step
from deskyard.toolchain.release import download
from deskyard.toolchain.tool import TOOLS, FoundTool, GoModule, Source, Tool

GO_BUILD_SECONDS = 2400
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
    on_path = shutil.which(name)
    if on_path and (version := _version(Path(on_path))) and _accepts(tool, version):
        return FoundTool(name, version, "PATH", Path(on_path))
    sources: tuple[Source, ...] = ("release", "go modules")
    for source in sources:
        path = _cached(tool, source)
        if path.exists():
            return FoundTool(name, tool.version, source, path)
    return None


def get(name: str) -> FoundTool:
    """Find the tool or get it: official release, then Go modules, then the distribution's package.

    Raises `HostError` that says what each way answered.
    """
    found = find(name)
    if found is not None:
        return found
    tool = _tool(name)
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
            answers.append(f"{source}: {error.reason}")
            say(f"    {source}: {error.reason.splitlines()[0]}")
            continue
        if found is not None:
            locate.cache_clear()
            return found
    reason = "could not be got\n" + "\n".join(answers)
    raise HostError("tool", name, reason, f"install {name} >= {'.'.join(map(str, tool.minimum))} and put it on PATH")


def _tool(name: str) -> Tool:
    if name not in TOOLS:
        raise ConfigError("tool", name, "is not known", f"choose one of: {', '.join(TOOLS)}")
    return TOOLS[name]


def _cached(tool: Tool, source: Source) -> Path:
    return places().toolchain / f"{tool.name}-{tool.version}-{source.replace(' ', '-')}" / tool.name


def _version(program: Path) -> str | None:
    try:
        text = run([str(program), "version"], timeout=60, env={"CHECKPOINT_DISABLE": "1"}).stdout
    except DeskyardError:
        return None
    match = re.search(r"v?(\d+\.\d+\.\d+)", text)
    return match.group(1) if match else None


def _accepts(tool: Tool, version: str) -> bool:
    numbers = tuple(int(part) for part in version.split("."))
    return tool.minimum <= numbers < tool.below


def _from_release(tool: Tool) -> FoundTool | None:
    path = download(tool.release, _cached(tool, "release").parent)
    return FoundTool(tool.name, tool.version, "release", path)


def _from_go(tool: Tool) -> FoundTool | None:
    module = tool.go_module
    if module is None:
        return None
    target = _cached(tool, "go modules")
    _go_build(module, tool.version, target)
    return FoundTool(tool.name, tool.version, "go modules", target)


def _go_build(module: GoModule, version: str, target: Path) -> None:
    """Build outside the tree: go writes into the module folder it builds from."""
    workshop = target.parent.with_name(target.parent.name + ".building")
    shutil.rmtree(workshop, ignore_errors=True)
    shutil.copytree(tree() / module.folder, workshop)
    flags = f"-s -w -X {module.version_variable}=v{version}"
    argv = ["go", "build", "-mod=mod", "-trimpath", "-ldflags", flags, "-o", target.name, module.package]
    try:
        run(argv, cwd=workshop, timeout=GO_BUILD_SECONDS, on_line=_go_progress)
        target.parent.mkdir(parents=True, exist_ok=True)
        (workshop / target.name).replace(target)
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


def _go_progress(line: str) -> None:
    if not line.startswith("go: downloading"):
        say(f"    {line}")


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
