"""The kind of a resource, as every backend offers it to the provider."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from deskyard.site.resource.values import Values

# The inputs of a kind, a TypedDict.
InputsT = TypeVar("InputsT")


class Kind(ABC, Generic[InputsT]):
    """A kind of resource: how it is made, seen, changed and removed. State is inputs and outputs together."""

    # A change of these inputs needs a new thing; all others are updated in place.
    replaces: ClassVar[frozenset[str]] = frozenset()
    # Inputs whose change means nothing.
    ignored: ClassVar[frozenset[str]] = frozenset()
    # Outputs that have to have these values; anything else is drift, mended by an update.
    desired: ClassVar[Values] = {}
    # Outputs that are known only after creation.
    computed: ClassVar[tuple[str, ...]] = ()

    def check(self, old: Values, new: Values) -> list[tuple[str, str]]:
        """Inputs that cannot be had, each with the reason."""
        return []

    def needs_replacement(self, state: Values, inputs: InputsT, changed: list[str]) -> list[str]:
        """Choose the changed inputs that need a new thing."""
        return [key for key in changed if key in self.replaces]

    def stale(self, state: Values) -> list[str]:
        """Outputs that need an update although no input changed."""
        return [key for key, value in self.desired.items() if key in state and state[key] != value]

    @abstractmethod
    def create(self, link: Any, inputs: InputsT) -> tuple[str, Values]:
        """Make it, or finish what an interrupted run left; returns its id and outputs."""

    @abstractmethod
    def read(self, link: Any, identity: str, state: Values) -> Values | None:
        """Read what is there now, inputs and outputs; None if it is gone."""

    @abstractmethod
    def update(self, link: Any, identity: str, state: Values, inputs: InputsT) -> Values:
        """Change it in place; returns its outputs."""

    @abstractmethod
    def delete(self, link: Any, identity: str, state: Values) -> None:
        """Remove it; fine if it is gone."""


class Backend(ABC):
    """A hypervisor or cluster: its kinds of resources, and the way to it."""

    kinds: ClassVar[dict[str, Kind[Any]]]
    # What its library raises: told to the user without a trace.
    errors: ClassVar[tuple[type[Exception], ...]] = ()

    @abstractmethod
    def open(self) -> Any:
        """Open what the kinds of this backend get as `link`."""
