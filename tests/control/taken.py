"""A process that was taken: a program with its account, its network and its connection to the database."""

import subprocess
import sys
from collections.abc import Sequence

from tests.control.lab import ACCOUNTS, TREE, WAIT_SECONDS, Lab

# The fixtures of a Mission Control, by where its database is.
PLACES = ["here", "elsewhere"]
RUN_SECONDS = 2 * WAIT_SECONDS
CONFINED = """
import sys
sys.path.insert(0, {tree!r})
import psycopg, contextlib, json, socket, os, pathlib, encodings.idna
from deskyard.control.ground.confinement import confine
from deskyard.errors import DeskyardError
confine({account!r}, network={network}, namespace={namespace})
{body}
"""


def confined(mission: Lab, body: str, account: str = ACCOUNTS.web) -> str:
    """Run a program where the web process runs, with its account or another's; what it prints."""
    open_to_it = account == ACCOUNTS.identity
    network = () if open_to_it else mission.network("taken")
    namespace = next(iter(network), None)
    text = CONFINED.format(tree=str(TREE), account=account, body=body, network=open_to_it, namespace=namespace)
    done = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
        env={"PATH": ""},
        pass_fds=network,
    )
    return done.stdout.strip() + done.stderr.strip().rpartition("\n")[2]


def tried(url: str, statements: list[str]) -> str:
    """A program that says which of these it may do; what follows it is within its connection."""
    return f"""
with psycopg.connect({url!r}, autocommit=True) as link:
    for statement in {statements!r}:
        try:
            link.execute(statement)
            print(statement)
        except psycopg.errors.InsufficientPrivilege:
            pass
"""


def counted(url: str, named: Sequence[tuple[str | None, str]]) -> str:
    """A program that prints what each statement did, in somebody's name if one is given: how many rows, or why none."""
    return f"""
with psycopg.connect({url!r}, autocommit=True) as link:
    answers = []
    for name, statement in {list(named)!r}:
        try:
            with link.transaction():
                if name is not None:
                    link.execute("select set_config('deskyard.caller', %s, true)", [name])
                answers.append(link.execute(statement).rowcount)
        except psycopg.errors.InsufficientPrivilege:
            answers.append("refused")
        except psycopg.errors.InvalidAuthorizationSpecification:
            answers.append("nobody")
print(json.dumps(answers))
"""
