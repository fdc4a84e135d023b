"""A service of a desktop's account that forks until it is refused, or has so many children: never without end.

It stands still then, with all of them, and forks on when it gets SIGUSR1. All of it ends with its service.
"""

from pathlib import Path

SERVICE = "greedy.service"
FOLDER = "/run/greedy"
PROGRAM = Path(__file__).with_name("greedy_program.py").read_text()
UNIT = """[Service]
User={account}
RuntimeDirectory=greedy
ExecStart=/usr/bin/python3 -I {program} {most} {folder}/said
"""
PLACE = "/usr/local/lib/greedy.py"
# So that there is something to wait for: its word has the number of the turn.
SAID = "timeout 100 sh -c 'until grep -sq \"^{turn} \" {folder}/said; do sleep 0.1; done' && cat {folder}/said"


def start(account: str, most: int) -> str:
    """The script that starts the service, for root."""
    unit = UNIT.format(account=account, program=PLACE, most=most, folder=FOLDER)
    return "\n".join(
        (
            "set -e",
            f"cat >{PLACE} <<'END'\n{PROGRAM}END",
            f"cat >/etc/systemd/system/{SERVICE} <<'END'\n{unit}END",
            "systemctl daemon-reload",
            f"systemctl start {SERVICE}",
        )
    )


def again() -> str:
    """The script that has it fork on."""
    return f"systemctl kill --kill-whom=main --signal=USR1 {SERVICE}"


def said(turn: int) -> str:
    """The script that says what came of a turn: its number, all children so far, and whether a fork was refused."""
    return SAID.format(turn=turn, folder=FOLDER)


def end() -> str:
    """The script that ends all of it and leaves nothing."""
    files = f"/etc/systemd/system/{SERVICE} {PLACE}"
    return f"systemctl stop {SERVICE}; rm -f {files}; rm -rf /etc/systemd/system/{SERVICE}.d; systemctl daemon-reload"
