"""Parts of Pulumi's package that a provider never touches: they are loaded when somebody does.

`import pulumi` loads all of itself, which is most of what a provider does in an `up` that changes nothing, and the
engine starts one or two for each command.
"""

import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

# What drives an engine, resources whose program is pickled into the state, and traces.
UNTOUCHED = frozenset({"pulumi.automation", "pulumi.dynamic", "pulumi.runtime._instrumentation"})
# Where an engine is traced, it says so by this variable, and the traces have to begin before anything is asked.
TRACED = "TRACEPARENT"


class Untouched(MetaPathFinder):
    """Finds modules as Python does, and has the bodies of these run at the first look at what they hold."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's spec if it is left for later; None for all others."""
        if fullname not in self._names:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def leave_untouched(environment: Mapping[str, str]) -> None:
    """Load those parts only if they are needed; before Pulumi's package is imported."""
    if TRACED not in environment:
        sys.meta_path.insert(0, Untouched(UNTOUCHED))
