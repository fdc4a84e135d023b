"""Who signs in by a provider, and in which workspaces a person is somebody."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Make their tables, columns and grants."""
    execute(op.get_bind(), read("0010_identity"))
