"""A shell in which `pulumi` works on a workspace as the tasks do: same program, same state, same provider."""

import shlex
import shutil

from deskyard.declaration import declaration
from deskyard.engine.backend import backend_of
from deskyard.engine.stack import WorkspaceStack
from deskyard.errors import HostError
from deskyard.site.files import stacks_folder

# Starts the program of a stack that is written in Python; it comes with Pulumi's release, not with its Go module.
LANGUAGE_HOST = "pulumi-language-python"


def environment(name: str) -> dict[str, str]:
    """The variables of such a shell; raises `HostError` without Pulumi's language host.

    The site is looked at as `workspace.up` does before it makes machines, and the hypervisor of this machine started.
    """
    declared = declaration.read(name)
    backend_of(declared.site).check(declared)
    variables = WorkspaceStack(name).shell()
    if shutil.which(LANGUAGE_HOST, path=variables["PATH"]) is None:
        remedy = "install Pulumi from its release, which has it beside itself, or use ./inv workspace.up"
        raise HostError("program", LANGUAGE_HOST, "is not on this machine", remedy)
    return variables


def script(variables: dict[str, str]) -> str:
    """The lines that a POSIX shell evaluates; it goes to the folder of the stack, too."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    return "\n".join([*lines, f"cd {shlex.quote(str(stacks_folder()))}"])
