"""The function that writes down a look by the hour, and the rules that read looks."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Add the function and the rules."""
    execute(op.get_bind(), read("0018_looks"))
