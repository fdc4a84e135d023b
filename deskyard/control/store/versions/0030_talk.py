"""Which conversation changed, for who carries those on the pages of gateways."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    """Make the function, and its triggers."""
    execute(op.get_bind(), read("0030_talk"))
