"""Forks until it is refused or has as many children as its first argument says; on with it at each SIGUSR1.

The second argument is the file in which it says the number of the turn, of its children, and `refused` or `whole`.
"""

import itertools
import os
import signal
import sys
from pathlib import Path


def fork(children: int, most: int) -> tuple[int, str]:
    """Fork, and how far that went."""
    while children < most:
        try:
            child = os.fork()
        except BlockingIOError:
            return children, "refused"
        if child == 0:
            while True:
                signal.pause()
        children += 1
    return children, "whole"


def main(most: int, said: Path) -> None:
    """Take turns until it is ended."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    children = 0
    for turn in itertools.count():
        children, how = fork(children, most)
        draft = said.with_suffix(".new")
        draft.write_text(f"{turn} {children} {how}\n")
        draft.rename(said)
        signal.sigwait({signal.SIGUSR1})


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
