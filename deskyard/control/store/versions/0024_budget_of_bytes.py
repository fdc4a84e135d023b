"""A budget of bytes that gateways counted, beside the one of machine time."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    """Add the bound, and let either be missing."""
    execute(op.get_bind(), read("0024_budget_of_bytes"))
