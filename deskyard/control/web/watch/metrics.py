"""/api/metrics: counts for Prometheus, as its text format has them."""

from collections.abc import Iterable
from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import PlainTextResponse

from deskyard.control.api import rows
from deskyard.control.api.caller import Caller, Connection, may
from deskyard.control.people.scopes import ADMIN

router = APIRouter(prefix="/api", tags=["health"])
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Name, what it counts, and a query of its labels and its value.
GAUGES = (
    (
        "deskyard_desktops",
        "Desktops by workspace and state",
        "select workspace_id as workspace, state, count(*) as value from desktop where gone_at is null group by 1, 2",
    ),
    (
        "deskyard_operations",
        "Operations that wait or run",
        "select state, count(*) as value from operation where state in ('queued', 'running', 'waiting') group by 1",
    ),
    (
        "deskyard_alerts",
        "Open alerts by rule",
        "select rule, count(*) as value from alert where closed_at is null group by 1",
    ),
    (
        "deskyard_workers",
        "Workers that were heard of late",
        f"select count(*) as value from worker where recent(seen_at, '{rows.WORKER_GONE}')",
    ),
    (
        "deskyard_deliveries_waiting",
        "Messages to webhooks that are not taken yet",
        "select count(*) as value from delivery where ended_at is null",
    ),
)


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(link: Connection, who: Annotated[Caller, Depends(may(ADMIN))]) -> PlainTextResponse:
    """Show counts for Prometheus; it sends a key with the scope admin as its bearer token."""
    lines: list[str] = []
    for name, text, query in GAUGES:
        lines += [f"# HELP {name} {text}.", f"# TYPE {name} gauge"]
        for row in await rows.rows(link, query, []):
            value = row.pop("value")
            lines.append(f"{name}{_labels(row.items())} {value}")
    return PlainTextResponse("\n".join(lines) + "\n", media_type=MEDIA_TYPE)


def _labels(labels: Iterable[tuple[str, str]]) -> str:
    parts = [f'{name}="{_escaped(value)}"' for name, value in labels]
    return f"{{{','.join(parts)}}}" if parts else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
