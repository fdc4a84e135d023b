"""The rule that gives a person their role and workspaces, and how they sign in, for those who look after people."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Make the columns and grants."""
    execute(op.get_bind(), read("0012_granted"))
