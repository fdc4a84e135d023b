"""To pause a desktop and to let it go on takes a slot of those who move machines."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0040"
down_revision = "0037"


def upgrade() -> None:
    """Add the kinds to their share."""
    execute(op.get_bind(), read("0040_machines"))
