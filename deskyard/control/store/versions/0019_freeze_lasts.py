"""The column that says of a stopped agent whether its gateway holds it over a boot."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Add the column, and let the trigger read it."""
    execute(op.get_bind(), read("0019_freeze_lasts"))
