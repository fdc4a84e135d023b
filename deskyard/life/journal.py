"""Keeps on disk how far an operation on a desktop has come, so that one that broke off is brought to an end."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from deskyard.host.places import places
from deskyard.host.secret_file import write_secret
from deskyard.life.power import Machine


@dataclass(frozen=True)
class Entry:
    """An exchange of a system disk: the images before and after, the last step, and the checks that failed before."""

    before: str
    after: str
    step: str
    failing: Sequence[str] = ()


class Journal:
    """The entry of one desktop; none means that nothing is under way."""

    def __init__(self, machine: Machine) -> None:
        folder = places().workspace(machine.plan.site, machine.plan.name)
        self._file = folder / f"exchange-{machine.name}.json"

    def read(self) -> Entry | None:
        """The entry; one that cannot be read is as good as one that has just begun."""
        try:
            return Entry(**json.loads(self._file.read_text()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):
            return Entry("?", "?", "begun")

    def write(self, entry: Entry) -> None:
        """Put an entry in place of the one before."""
        write_secret(self._file, f"{json.dumps(asdict(entry))}\n".encode())

    def close(self) -> None:
        """The operation has come to its end."""
        self._file.unlink(missing_ok=True)
