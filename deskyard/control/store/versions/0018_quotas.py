"""Quotas of processors and disks."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Add their columns, which the web process may set as the others."""
    execute(op.get_bind(), read("0018_quotas"))
