"""The folder in which an image is built or tested: it goes with the block, and no machine in it outlives it unasked."""

import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deskyard.host.places import places
from deskyard.host.progress import say
from deskyard.host.vm.qemu import Machine, machines_below

SSH_CONFIG = "ssh_config"


@contextmanager
def scratch_folder(prefix: str, *, keep: bool = False) -> Iterator[Path]:
    """A hidden folder beside the images; with `keep` one whose machine was left running is left too.

    Whoever fails leaves a machine running; an interruption ends it, asked for or not.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=places().images))
    kept = False
    try:
        yield folder
    except Exception:
        kept = keep and any(machines_below(folder))
        raise
    finally:
        if kept:
            for machine in machines_below(folder):
                say(how_to_reach(machine, folder))
        else:
            for machine in machines_below(folder):
                machine.end()
            shutil.rmtree(folder, ignore_errors=True)


def how_to_reach(machine: Machine, folder: Path) -> str:
    """How to get into a machine that was left running, and how to end it."""
    # QEMU removes its own pid file meanwhile.
    end = f"kill {machine.pid()} && rm -rf {shlex.quote(str(folder))}"
    enter = f"ssh -F {shlex.quote(str(machine.folder / SSH_CONFIG))} guest"
    return f"    the virtual machine was kept\n      get in:  {enter}\n      end it:  {end}"
