"""The program of an operation, what is left of it, the wish that it ends by force; refused names are forgotten."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0039"
down_revision = "0038"


def upgrade() -> None:
    """Add the columns, what the web process may want by them, and the line of the audit."""
    execute(op.get_bind(), read("0039_force"))
