"""Approvals: what waits for a person at gateways."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the table."""
    execute(op.get_bind(), read("0002_approval"))
