"""Row security: which rows of a table a role may read and write, where its columns say too little."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0035"
down_revision = "0034"


def upgrade() -> None:
    """Add the policies of rows, and take the place of three triggers by them."""
    execute(op.get_bind(), read("0035_rows"))
