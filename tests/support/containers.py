"""Hosts in containers (deskyard/lab/nspawn.py) that last as long as a `with` block."""

import shutil
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from deskyard.lab.nspawn import Yard


class Containers(ABC):
    """The hosts of one folder: nothing of them is left when the block ends, nor when they could not be booted."""

    def __init__(self, folder: Path) -> None:
        self.yard = Yard(folder)

    @abstractmethod
    def boot(self) -> None:
        """Create the hosts and make them ready."""

    def __enter__(self) -> Self:
        try:
            self.boot()
        except BaseException:
            self.yard.destroy()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.yard.destroy()
        assert self.yard.left_behind() == []
        shutil.rmtree(self.yard.folder)
