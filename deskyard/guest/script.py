"""Runs as root on a desktop: runs a script of the owner's as the agent, bounded in time, and keeps what it said.

Sent over standard input and run by `python3`, so it knows only the standard library of Python 3.10 and later. It reads
a request (one line of JSON) and answers one line of JSON. Without the whole request it does nothing.
"""

import contextlib
import os
import pwd
import re
import selectors
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from deskyard.guest.request import serve
from deskyard.guest.root_file import alone, put

END_SECONDS = 5.0
MAX_OUTPUT = 64 << 10
MAX_SAID = 4000
PIECES = 16
KEYS = "/etc/deskyard/keys.env"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def run(account: pwd.struct_passwd, folder: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Run the script in the account's home; that it ended well, and what it said, stays in `folder`.

    Who asks may have lost the way here and ask again: what has ended well in the meantime is not run again.
    """
    program, done = folder / request["script"], folder / f"{request['script']}.done"
    if done.exists() and (request["once"] or done.read_text() == request["run"]):
        return {"code": 0, "in_time": True, "output": ""}
    put(program, request["text"], 0o755)
    variables = {"HOME": account.pw_dir, "USER": account.pw_name, "LOGNAME": account.pw_name, "LANG": "C.UTF-8"}
    variables |= {"SHELL": account.pw_shell, "PATH": SYSTEM_PATH, **request["environment"]}
    other = os.geteuid() != account.pw_uid
    process = subprocess.Popen(
        [str(program)],
        cwd=account.pw_dir,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        umask=0o022,
        user=account.pw_uid if other else None,
        group=account.pw_gid if other else None,
        extra_groups=os.getgrouplist(account.pw_name, account.pw_gid) if other else None,
    )
    output, in_time = followed(process, time.monotonic() + request["seconds"])
    said = without_keys(output.decode("utf-8", "replace"))
    put(folder / f"{request['script']}.log", said, 0o644)
    if in_time and process.returncode == 0:
        put(done, request["run"], 0o644)
    return {"code": process.returncode, "in_time": in_time, "output": said[-MAX_SAID:]}


def followed(process: "subprocess.Popen[bytes]", end: float) -> tuple[bytes, bool]:
    """The end of what it says, and whether it ended in time; then nothing of its session is left."""
    assert process.stdout is not None
    output, pipe = bytearray(), process.stdout.fileno()
    os.set_blocking(pipe, False)
    with selectors.DefaultSelector() as ready:
        ready.register(pipe, selectors.EVENT_READ)
        over = False
        while not over:
            over = process.poll() is not None or time.monotonic() > end
            if not over and not ready.select(0.2):
                continue
            with contextlib.suppress(BlockingIOError):
                # Not to the end of what there is: one that never stops talking would be listened to for ever.
                for _ in range(PIECES):
                    output = (output + os.read(pipe, 1 << 16))[-MAX_OUTPUT:]
            # What has closed its output is asked now and then whether it still runs.
            time.sleep(0.02)
    in_time = process.poll() is not None
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
    process.stdout.close()
    return bytes(output), in_time


def without_keys(text: str) -> str:
    """The text without the owner's keys: a script may read them, and say them by mistake."""
    with contextlib.suppress(OSError):
        for value in re.findall(r"^[A-Z0-9_]+='([^']{4,})'$", Path(KEYS).read_text(), re.MULTILINE):
            text = text.replace(value, "***")
    return text


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Do what is asked."""
    try:
        account = pwd.getpwnam(request["account"])
    except KeyError:
        return {"error": f"there is no account {request['account']}"}
    state = Path(request["state"])
    try:
        with alone(state):
            scripts = state / "scripts"
            scripts.mkdir(mode=0o755, exist_ok=True)
            return run(account, scripts, request)
    except OSError as error:
        return {"error": f"{error.filename or state}: {error.strerror}"}


if __name__ == "__main__":
    serve(answer)
