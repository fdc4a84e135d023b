"""The outcome of the last order of a certificate, and whether the door has it."""

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deskyard.gateway.machine import files, tls
from deskyard.gateway.machine.layout import Layout
from deskyard.wire.gateway_settings import Settings


@dataclass(frozen=True)
class Record:
    """The outcome of the last order; `certificate` is the fingerprint of the one that the server gave."""

    certificate: str | None = None
    directory: str | None = None
    tried: str | None = None
    error: str | None = None


def in_force(settings: Settings, layout: Layout) -> bool:
    """Whether the door has a certificate from the server that the settings name, and it is good."""
    validity, record = tls.validity(layout.tls_bundle), load(layout)
    if settings.acme is None or validity is None or record.certificate is None:
        return False
    mine = record.certificate == tls.fingerprint(layout.tls_bundle) and record.directory == settings.acme.directory
    return mine and validity[1] > datetime.now(UTC) and tls.covers(layout.tls_bundle, settings.hostname)


def state(settings: Settings, layout: Layout) -> dict[str, Any] | None:
    """For `status`; nothing if the site does not use ACME."""
    if settings.acme is None:
        return None
    record = load(layout)
    used = in_force(settings, layout)
    return {"directory": settings.acme.directory, "in_force": used, "tried": record.tried, "error": record.error}


def load(layout: Layout) -> Record:
    """Read the outcome of the last order."""
    text = files.read(_record_file(layout))
    return Record(**json.loads(text)) if text else Record()


def _record_file(layout: Layout) -> Path:
    return layout.acme / "record.json"


def save(record: Record, layout: Layout) -> None:
    """Keep what came of an order."""
    files.write(_record_file(layout), json.dumps(asdict(record)) + "\n")
