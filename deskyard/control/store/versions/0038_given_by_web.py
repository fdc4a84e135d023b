"""Keys and persons that the worker writes for an admin who signed it, within bounds that the database holds, too."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0038"
down_revision = "0037"


def upgrade() -> None:
    """Let the worker's account write them, and say of each person who gave them what they may."""
    execute(op.get_bind(), read("0038_given_by_web"))
