"""Says why something cannot be done once: it is tried every some seconds, and a log of each try has no end."""

import logging


class Reasons:
    """The last reason of each of those that are tried again."""

    def __init__(self, log: logging.Logger, what: str) -> None:
        self._log, self._what = log, what
        self._said: dict[str, str] = {}

    def say(self, name: str, why: str) -> None:
        """Say why it cannot be done for this name, unless that is what was said last."""
        if self._said.get(name) != why:
            self._log.info("%s %s: %s", name, self._what, why)
            self._said[name] = why

    def forget(self, name: str) -> None:
        """Say it anew the next time: it went well meanwhile, or there is nothing of that name."""
        self._said.pop(name, None)
