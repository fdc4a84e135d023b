"""Customisation of a desktop, worked out from its workspace's files and its own: what goes where, what is refused."""

import difflib
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from deskyard.computer.recording import asked
from deskyard.computer.recording.asked import Asked
from deskyard.errors import ConfigError
from deskyard.plan.account import AGENT
from deskyard.plan.key_file import SUFFIX
from deskyard.plan.printable import printable

# The account whose home it is, and that runs the scripts.
HOME = f"/home/{AGENT}"
# So much of a name is shown that cannot be.
SHOWN = 200
STATE = "/var/lib/deskyard/customise"
ENVIRONMENT_FILE = "/etc/deskyard/environment.env"
PROFILE_FILE = "/etc/profile.d/deskyard-environment.sh"
# What the agent's sessions begin in.
UNITS = ("desktop-session.service", "web-terminal.service")

HOME_FOLDER, ENVIRONMENT = "home", "environment"
FIRST_BOOT, EVERY_APPLY = "first-boot", "every-apply"
SCRIPTS = (FIRST_BOOT, EVERY_APPLY)
PARTS = (HOME_FOLDER, ENVIRONMENT, *SCRIPTS)
# What lies beside in a repository, and is for its readers.
BESIDE = re.compile(r"\..*|README(\..*)?|LICEN[CS]E(\..*)?")

MAX_FILES = 1000
MAX_PATH, MAX_NAME = 400, 200
MAX_VARIABLES, MAX_CHARACTERS = 256, 4096
# How the names of files end while they are written.
DRAFTS = (".deskyard-part", ".deskyard-swap")
PRIVATE_FOLDERS = (".ssh", ".gnupg")

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
SESSIONS_OWN = {"HOME", "USER", "LOGNAME", "SHELL", "PWD", "PATH", "DISPLAY", "XDG_RUNTIME_DIR"}
SECRET_WORDS = {
    "APIKEY",
    "CREDENTIALS",
    "KEY",
    "KEYS",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "SECRET",
    "SECRETS",
    "TOKEN",
}
HEAD = "# Written by Deskyard from what customises this desktop; what is changed here does not stay.\n"

Of = Literal["workspace", "desktop"]


@dataclass(frozen=True)
class HomeFile:
    """A file for the agent's home."""

    content: bytes = field(repr=False)
    executable: bool

    @property
    def mark(self) -> str:
        """A mark that tells the file from any other: whether it is a program, and the digest of its content."""
        return f"{'x' if self.executable else '-'}{hashlib.sha256(self.content).hexdigest()}"


@dataclass(frozen=True)
class Layer:
    """The content of a folder: files by their path in the home, variables, and scripts by name."""

    files: Mapping[str, HomeFile]
    environment: Mapping[str, str]
    scripts: Mapping[str, str]
    script_seconds: int


@dataclass(frozen=True)
class Script:
    """A script, whose it is, and how long it may run."""

    name: str
    of: Of
    text: str
    seconds: int

    @property
    def title(self) -> str:
        """The name of the script on the desktop."""
        return f"{self.name}-{self.of}"


@dataclass(frozen=True)
class Customisation:
    """The files, variables and scripts that a desktop has to have."""

    files: Mapping[str, HomeFile]
    environment: Mapping[str, str]
    scripts: tuple[Script, ...]
    recording: Asked | None = None

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to bring, so that what was brought before is taken back."""
        return not (self.files or self.environment or self.scripts or self.recording)

    def system_files(self) -> dict[str, str | None]:
        """The files that root keeps for the desktop: path -> text, or None if there shall be none."""
        recording = asked.written(self.recording) if self.recording else None
        return {**self._environment_files(), asked.PATH: recording}

    def _environment_files(self) -> dict[str, str | None]:
        drop_ins = [f"/etc/systemd/system/{unit}.d/50-deskyard-environment.conf" for unit in UNITS]
        if not self.environment:
            return dict.fromkeys((ENVIRONMENT_FILE, PROFILE_FILE, *drop_ins))
        lines = "".join(f"{name}='{value}'\n" for name, value in sorted(self.environment.items()))
        profile = f'if [ "$(id -un)" = {AGENT} ] && [ -r {ENVIRONMENT_FILE} ]; then\n'
        profile += f"  set -a\n  . {ENVIRONMENT_FILE}\n  set +a\nfi\n"
        drop_in = f"{HEAD}[Service]\nEnvironmentFile=-{ENVIRONMENT_FILE}\n"
        return {ENVIRONMENT_FILE: HEAD + lines, PROFILE_FILE: HEAD + profile, **dict.fromkeys(drop_ins, drop_in)}


def laid_over(workspace: Layer | None, desktop: Layer | None, source: str) -> Customisation:
    """The workspace's files and variables under the desktop's own; scripts of both, the workspace's first.

    Raises `ConfigError` naming `source` where the one has a file and the other a folder.
    """
    layers: list[tuple[Of, Layer]] = []
    if workspace is not None:
        layers.append(("workspace", workspace))
    if desktop is not None:
        layers.append(("desktop", desktop))
    files = {path: file for _, layer in layers for path, file in layer.files.items()}
    for path in files:
        above = path.rpartition("/")[0]
        while above:
            if above in files:
                reason = f"is a file of the workspace and a folder of {source}, or the other way round"
                raise ConfigError(f"{HOME_FOLDER}/{above}", None, reason, "rename one of them")
            above = above.rpartition("/")[0]
    environment = {name: value for _, layer in layers for name, value in layer.environment.items()}
    scripts = (
        Script(name, of, layer.scripts[name], layer.script_seconds)
        for name in SCRIPTS
        for of, layer in layers
        if name in layer.scripts
    )
    return Customisation(files, environment, tuple(scripts))


def check_part(name: str, source: str) -> bool:
    """True for a part of the layout, false for what lies beside; raises `ConfigError` for anything else."""
    if name in PARTS:
        return True
    if BESIDE.fullmatch(name):
        return False
    near = difflib.get_close_matches(name, PARTS, 1)
    remedy = f"rename it to {near[0]!r}" if near else f"keep {', '.join(PARTS)} in it, and README or LICENSE"
    raise ConfigError(
        f"{source}: {printable(name, most=SHOWN)}", None, "is no part of what customises a desktop", remedy
    )


def check_path(path: str, source: str) -> str:
    """The path of a file below `home`, if it is a good one and leads nowhere else; else a `ConfigError`."""
    where = f"{source}: {HOME_FOLDER}/{printable(path, most=SHOWN)}"
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise ConfigError(where, None, "leads out of the home", "give the file a path inside")
    if any(not letter.isprintable() for letter in path) or not _is_text(path):
        raise ConfigError(where, None, "has a name that is not printable", "rename it")
    if len(path.encode()) > MAX_PATH or any(len(part.encode()) > MAX_NAME for part in parts):
        reason = f"is longer than {MAX_PATH} bytes, or a part of it than {MAX_NAME}"
        raise ConfigError(where, None, reason, "give it a shorter path")
    if any(part.endswith(DRAFTS) for part in parts):
        raise ConfigError(where, None, "has a name that files have while they are written", "rename it")
    return path


def mode(path: str, executable: bool) -> int:
    """The mode of a file in the home: below folders that programs want private, for nobody else."""
    private = path.split("/")[0] in PRIVATE_FOLDERS
    return (0o700 if private else 0o755) if executable else (0o600 if private else 0o644)


def read_environment(content: bytes, source: str) -> dict[str, str]:
    """The variables in a file of NAME=value lines; raises `ConfigError` naming the line, and never showing a value."""
    found: dict[str, str] = {}
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        where = f"{source}: {ENVIRONMENT}, line {number}"
        name, equals, value = line.partition("=")
        if not equals or not VARIABLE.match(name):
            reason = "is no NAME=value, without spaces around the name"
            raise ConfigError(where, None, reason, "write for example EDITOR=nano, or # for a remark")
        _check_name(name, where)
        _check_value(value, f"{where}, {name}")
        if name in found:
            raise ConfigError(where, name, "is set twice", "keep one of them")
        found[name] = value
    if len(found) > MAX_VARIABLES:
        reason = f"has more than {MAX_VARIABLES} variables"
        raise ConfigError(f"{source}: {ENVIRONMENT}", None, reason, "set fewer")
    return found


def read_script(name: str, content: bytes, source: str) -> str:
    """The text of a script; raises `ConfigError` if no system could start it."""
    where = f"{source}: {name}"
    if not content.startswith(b"#!/"):
        raise ConfigError(where, None, "does not say what runs it", "begin it with a line such as #!/bin/sh")
    if b"\r\n" in content:
        raise ConfigError(where, None, "has the line ends of Windows", "save it with the line ends of Unix")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ConfigError(where, None, "is no text in UTF-8", "put a program into home/, and call it here") from None


def _check_name(name: str, where: str) -> None:
    upper = name.upper()
    if upper.endswith(SUFFIX) or SECRET_WORDS.intersection(upper.split("_")):
        remedy = "take it out, and bring it as a key: ./inv desktop.set-key WORKSPACE NAME"
        raise ConfigError(where, name, "is, by its name, a key or another secret, which no folder shall hold", remedy)
    if upper in SESSIONS_OWN or upper.startswith("LD_"):
        remedy = "set it in home/.profile, which the agent's own shells read"
        raise ConfigError(where, name, "is set by each session itself", remedy)


def _check_value(value: str, where: str) -> None:
    # systemd and shells differ in what they make of a backslash, and of what is not ASCII.
    if not all(" " <= letter <= "~" and letter not in "'\\" for letter in value):
        reason = "holds a quote ('), a backslash, or what is not printable ASCII"
        raise ConfigError(where, None, reason, "set it in home/.profile instead")
    if value[:1] == '"' or value != value.strip():
        raise ConfigError(where, None, "begins or ends with a quote or a space", "write the value as it shall be")
    if len(value) > MAX_CHARACTERS:
        raise ConfigError(where, None, f"is longer than {MAX_CHARACTERS} characters", "put it into a file in home/")


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
