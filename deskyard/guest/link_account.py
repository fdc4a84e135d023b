"""Runs as root in a gateway: makes the account that the key of the process `link` opens, and brings it in step.

Its files are root's. The account may start one program as root, by sudo and without any argument; sshd starts that
program for the key and nothing else, so who gets past sshd may still only ask the same questions.

Sent over standard input and run by `python3`, so it knows only the standard library of Python 3.11 and later. It reads
a request (one line of JSON with `key` and `program`) and answers one line of JSON.
"""

import os
import pwd
import subprocess
from pathlib import Path

from deskyard.guest.request import Answer, serve
from deskyard.guest.root_file import alone, put

# Another name than Mission Control's process has at the host: tests have both in one machine.
ACCOUNT = "deskyard-questions"
HOME = f"/usr/lib/{ACCOUNT}"
QUESTIONS = f"{HOME}/answer"
# The question is all that sudo hands on; no argument is allowed.
RIGHTS = f"""\
# Written by Deskyard.
Defaults:{ACCOUNT} env_reset, env_keep = "SSH_ORIGINAL_COMMAND", !requiretty
{ACCOUNT} ALL=(root) NOPASSWD: {QUESTIONS} ""
"""
RIGHTS_FILE = f"/etc/sudoers.d/60-{ACCOUNT}"
SECONDS = 60


def key_line(key: str) -> str:
    """The key's line: one command whatever is asked for, no terminal, no forwarding, no file of the account's."""
    return f'restrict,command="/usr/bin/sudo -n {QUESTIONS}" {key}\n'


def settle(key: str, program: str) -> Answer:
    """Make what is absent and change what differs; the key comes last, when all that binds it is there."""
    os.umask(0o022)
    with alone(Path(HOME)):
        _make_account()
        # A mistake in there would take sudo from everybody.
        _run(["visudo", "-c", "-q", "-f", "-"], RIGHTS)
        files = ((QUESTIONS, program, 0o755), (RIGHTS_FILE, RIGHTS, 0o440))
        changed = [path for path, text, mode in files if put(Path(path), text, mode, 0) == "changed"]
        keys = f"{HOME}/.ssh/authorized_keys"
        return {"changed": [*changed, *([keys] if put(Path(keys), key_line(key), 0o644, 0) == "changed" else [])]}


def _make_account() -> None:
    try:
        pwd.getpwnam(ACCOUNT)
    except KeyError:
        # With a shell, since sshd has it start the one command; no password fits.
        argv = ["useradd", "--system", "--user-group", "--no-create-home", "--home-dir", HOME, "--password", "*"]
        _run([*argv, "--shell", "/bin/sh", ACCOUNT])


def _run(argv: list[str], stdin: str = "") -> None:
    subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=SECONDS, check=True)


if __name__ == "__main__":
    serve(lambda request: settle(request["key"], request["program"]))
