"""Brings the tables of Mission Control to what this tree needs; a database of a newer tree is refused."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import psycopg
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, create_engine

from deskyard.control.store.connection import UNBOUNDED
from deskyard.errors import HostError

FOLDER = Path(__file__).parent


def migrate(url: str, before: Callable[[], object] | None = None) -> str:
    """Take every step that the database lacks, in one transaction; the version it has then.

    `before` is called before tables that hold something are changed.
    """
    now, head = version(url), versions()[0]
    require_known(now)
    if now != head:
        if now is not None and before is not None:
            before()
        settings = _settings()
        settings.attributes["url"] = url
        command.upgrade(settings, "head")
    return head


def require_known(found: str | None) -> None:
    """Raise `HostError` for a version of which this tree knows nothing."""
    if found is not None and found not in versions():
        remedy = "use the tree that made it, or a newer one; control.restore brings a backup of before"
        raise HostError("database", found, "was made by a newer Deskyard", remedy)


def versions() -> list[str]:
    """The versions that this tree knows, the newest first."""
    return [script.revision for script in ScriptDirectory.from_config(_settings()).walk_revisions()]


def version(url: str) -> str | None:
    """The version that a database has; None if it is empty."""
    engine = engine_of(url)
    try:
        with engine.connect() as link:
            return MigrationContext.configure(link).get_current_revision()
    finally:
        engine.dispose()


def engine_of(url: str) -> Engine:
    """The engine that Alembic works on: connections as PostgreSQL's own library reads the URL, without a bound."""
    return create_engine("postgresql+psycopg://", creator=partial(psycopg.connect, url, options=UNBOUNDED))


def _settings() -> Config:
    settings = Config()
    settings.set_main_option("script_location", str(FOLDER))
    return settings


def read(name: str) -> str:
    """The statements of a step."""
    return (FOLDER / "versions" / f"{name}.sql").read_text()


def execute(link: object, statements: str) -> None:
    """Send a whole step as it is written; nothing in it is a parameter."""
    raw = getattr(link, "connection").driver_connection  # noqa: B009
    assert isinstance(raw, psycopg.Connection)
    raw.execute(statements.encode(), prepare=False)
