"""Operations that wait until their site has room for them."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    """Add the columns, and the rule of the alert."""
    execute(op.get_bind(), read("0031_room"))
