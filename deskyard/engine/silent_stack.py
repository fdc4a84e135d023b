"""A stack of Pulumi that asks its engine for nothing that nobody reads."""

from datetime import UTC, datetime
from typing import Self

from pulumi import automation
from pulumi.automation._stack import StackInitMode

UNREAD = automation.UpdateSummary(
    kind="update", start_time=datetime(1970, 1, 1, tzinfo=UTC), message="", environment={}, config={}, result="unread"
)


class SilentStack(automation.Stack):
    """A stack whose `up` and `destroy` end with their work.

    The parent class starts the engine up to three times more, for outputs and a summary, and each start derives the
    key of the state anew. What happens is told by events, and what there is by the state.
    """

    @classmethod
    def create(cls, stack_name: str, workspace: automation.Workspace) -> Self:
        """A stack that is not there yet."""
        return cls(stack_name, workspace, StackInitMode.CREATE)

    @classmethod
    def select(cls, stack_name: str, workspace: automation.Workspace) -> Self:
        """A stack that is there; raises `StackNotFoundError` if it is not."""
        return cls(stack_name, workspace, StackInitMode.SELECT)

    def outputs(self) -> automation.OutputMap:
        """No outputs: they are in the state."""
        return {}

    def info(self, show_secrets: bool = True) -> automation.UpdateSummary:
        """A summary without content: a run that fails raises an error."""
        return UNREAD
