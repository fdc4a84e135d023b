"""Reads what customises desktops: a folder, or a pinned state of a git repository; refuses odd things."""

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deskyard.errors import ConfigError
from deskyard.host.command import Result, run
from deskyard.host.places import places
from deskyard.host.progress import say
from deskyard.model.customise import Customise
from deskyard.plan import customisation
from deskyard.plan.customisation import ENVIRONMENT, HOME_FOLDER, MAX_FILES, SCRIPTS, HomeFile, Layer
from deskyard.plan.printable import printable

MIB = 1 << 20
FETCH_SECONDS = 300.0
# What a pack may hold besides the files: a tree, a commit, a little of each.
PACK_SLACK_MIB = 4
GIT_ENVIRONMENT = {"GIT_TERMINAL_PROMPT": "0", "SSH_ASKPASS_REQUIRE": "never", "GIT_ALLOW_PROTOCOL": "https:ssh:file"}
# No program that this machine's git, or the repository, names is started for what is fetched.
GIT_OPTIONS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.autocrlf=false",
    "gc.auto=0",
    "filter.lfs.smudge=",
    "filter.lfs.process=",
    "filter.lfs.required=false",
)


def read(customise: Customise, beside: Path) -> Layer:
    """Read what `customise` names; a folder is relative to `beside`. Raises `ConfigError` for a bad source."""
    if not customise.is_git:
        return read_folder(beside / Path(customise.source).expanduser(), customise)
    if customise.is_commit and (kept := _kept(customise)).is_dir():
        return read_folder(kept, customise)
    places().cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".customise-", dir=places().cache) as scratch:
        work = Path(scratch) / "files"
        _fetch(customise, Path(scratch), work)
        if (work / ".gitmodules").exists():
            raise ConfigError("customise.from", customise.ref, "has submodules", "put their files into the repository")
        layer = read_folder(work, customise)
        if customise.is_commit:
            # What a commit holds never changes. What a tag names may.
            kept.parent.mkdir(exist_ok=True)
            shutil.rmtree(kept, ignore_errors=True)
            work.rename(kept)
    return layer


def read_folder(folder: Path, customise: Customise) -> Layer:
    """The parts in a folder. Not one link is followed below it, and nothing but plain files is read."""
    source = folder.name if not customise.is_git else "the repository"
    if not folder.is_dir():
        reason = "is no folder" if folder.exists() else "does not exist"
        raise ConfigError("customise.from", str(folder), reason, "create it, or write its path relative to the file")
    _check_size(folder, customise, source)
    files: dict[str, HomeFile] = {}
    environment: dict[str, str] = {}
    scripts: dict[str, str] = {}
    for entry in _entries(folder, source):
        if entry.part == HOME_FOLDER:
            path = customisation.check_path(entry.path.removeprefix(f"{HOME_FOLDER}/"), source)
            files[path] = HomeFile(_content(entry), bool(entry.facts.st_mode & stat.S_IXUSR))
        elif entry.part == ENVIRONMENT:
            environment = customisation.read_environment(_content(entry), source)
        elif entry.part in SCRIPTS:
            scripts[entry.part] = customisation.read_script(entry.part, _content(entry), source)
    return Layer(files, environment, scripts, customise.script_seconds)


@dataclass(frozen=True)
class _Entry:
    path: str
    file: Path
    facts: os.stat_result

    @property
    def part(self) -> str:
        return self.path.split("/")[0]


def _check_size(folder: Path, customise: Customise, source: str) -> None:
    """Look at everything before anything is read."""
    number, size = 0, 0
    for entry in _entries(folder, source):
        number, size = number + 1, size + entry.facts.st_size
        if number > MAX_FILES:
            reason = f"holds more than {MAX_FILES} files"
            raise ConfigError("customise.from", source, reason, "put them into an image of your own (docs/images.md)")
        if size > customise.max_mib * MIB:
            reason = f"holds more than {customise.max_mib} MiB"
            raise ConfigError("customise.from", source, reason, "take large files out, or raise customise.max_mib")


def _entries(folder: Path, source: str) -> Iterator[_Entry]:
    """Every file of the parts, in order; raises `ConfigError` for what is no plain file, or in the wrong place."""
    for file in sorted(folder.iterdir()):
        if customisation.check_part(file.name, source):
            yield from _below(file, file.name, source)


def _below(file: Path, path: str, source: str) -> Iterator[_Entry]:
    facts = file.lstat()
    is_folder = stat.S_ISDIR(facts.st_mode)
    if path == HOME_FOLDER and not is_folder:
        raise ConfigError(f"{source}: {path}", None, "is no folder", "put the files for the home into a folder")
    if is_folder and path.split("/")[0] == HOME_FOLDER:
        for below in sorted(file.iterdir()):
            yield from _below(below, f"{path}/{below.name}", source)
        return
    reason = _odd(facts.st_mode)
    if reason:
        raise ConfigError(
            f"{source}: {printable(path, most=None)}", None, reason, "replace it by a plain file, or take it out"
        )
    yield _Entry(path, file, facts)


def _odd(mode: int) -> str | None:
    """Why this is nothing that is copied."""
    if stat.S_ISLNK(mode):
        return "is a symbolic link"
    if not stat.S_ISREG(mode):
        return "is no plain file"
    return "has a setuid or setgid bit" if mode & (stat.S_ISUID | stat.S_ISGID) else None


def _content(entry: _Entry) -> bytes:
    """The content, if it is still the file that was looked at."""
    try:
        handle = os.open(entry.file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise ConfigError("customise.from", entry.path, str(error.strerror), "check its permissions") from error
    with os.fdopen(handle, "rb") as file:
        if os.path.samestat(os.fstat(handle), entry.facts):
            content = file.read(entry.facts.st_size + 1)
            if len(content) == entry.facts.st_size:
                return content
    raise ConfigError("customise.from", entry.path, "changed while it was read", "run the same command again")


def _kept(customise: Customise) -> Path:
    """Where a commit's files are kept between runs."""
    name = hashlib.sha256(f"{customise.source}\0{customise.ref}".encode()).hexdigest()
    return places().cache / "customise" / name


def _fetch(customise: Customise, scratch: Path, work: Path) -> None:
    """Fetch a state of a repository and no history: bounded in time and, while it arrives, in size."""
    ref = customise.ref or ""
    say(f"    git: fetching {ref}")
    git = ["git", f"--git-dir={scratch / 'git'}", f"--work-tree={work}"]
    git += [word for option in GIT_OPTIONS for word in ("-c", option)]
    work.mkdir()
    run([*git, "init", "--quiet"], timeout=60, env=GIT_ENVIRONMENT)
    limit = (customise.max_mib + PACK_SLACK_MIB) * MIB
    name = ref if customise.is_commit else f"refs/tags/{ref}"
    fetch = ["fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", customise.source, name]
    argv = ["prlimit", f"--fsize={limit}", *git, *fetch]
    _done(run(argv, timeout=FETCH_SECONDS, env=GIT_ENVIRONMENT, check=False), customise)
    out = ["checkout", "--quiet", "--detach", "FETCH_HEAD"]
    _done(run(["prlimit", f"--fsize={limit}", *git, *out], timeout=60, env=GIT_ENVIRONMENT, check=False), customise)


def _done(answer: Result, customise: Customise) -> None:
    if answer.code == 0:
        return
    ref, said = customise.ref, answer.stderr.strip()[-500:]
    if "signal 25" in said or answer.code == -25 or "File too large" in said:
        reason = f"holds more than {customise.max_mib} MiB"
        raise ConfigError("customise.from", ref, reason, "take large files out, or raise customise.max_mib")
    if "couldn't find remote ref" in said or "not our ref" in said:
        reason = "is neither a tag of the repository nor a commit that it gives out"
        raise ConfigError("customise.ref", ref, reason, "name a tag, or all digits of a commit; a branch is no pin")
    remedy = "mend the cause above; a private repository is opened by git's credential helper or an SSH key"
    raise ConfigError("customise.from", ref, f"could not be fetched: {said}", remedy)
