"""The audit is checked in parts, since of a long one no answer could wait for the end."""

import asyncio
from typing import Any

import httpx
import psycopg
import pytest
from psycopg.rows import dict_row

from deskyard.control.api.problem import Problem
from deskyard.control.store.cluster import OWNER
from deskyard.control.web import settings
from tests.control.lab import Lab


def test_a_long_audit_is_checked_in_parts_of_which_each_goes_on_where_the_one_before_ended(
    mission: Lab, owner: httpx.Client
) -> None:
    def part(after: int, head: str = "", limit: int = 2) -> dict[str, Any]:
        values = {"after": after, "limit": limit} | ({"head": head} if head else {})
        answer = owner.get("/api/audit/verify", params=values)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    mission.declare("lab", "first")
    mission.link.execute("truncate audit_entry")
    for _ in range(3):
        operation = owner.post("/api/desktops/lab.first/restart").json()["id"]
        mission.until("select 1 from audit_entry where detail ->> 'operation' = %s", [operation])
    try:
        parts = [part(0)]
        while parts[-1]["more"]:
            parts.append(part(parts[-1]["entries"], parts[-1]["head"]))
        whole = owner.get("/api/audit/verify").json()
        assert len(parts) > 1 and all(each["ok"] for each in parts)
        assert (parts[-1], whole["more"]) == (whole, False)
        assert owner.get("/api/audit/verify?after=2").json()["field"] == "head"
        # What lies behind a part may be changed, or cut off, meanwhile.
        mission.link.execute("update audit_entry set actor = 'somebody' where number = 3")
        assert part(2, parts[0]["head"])["problem"] == "line 3 was changed"
        mission.link.execute("delete from audit_entry where number = 3")
        assert part(3, "0" * 64)["problem"] == "line 3 is missing"
        assert part(2, "0" * 64)["problem"] == "line 2 was changed"
    finally:
        mission.link.execute("truncate audit_entry")


def test_an_audit_that_takes_longer_than_an_answer_may_is_not_checked_whole(
    mission: Lab, owner: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    mission.declare("lab", "first")
    operation = owner.post("/api/desktops/lab.first/restart").json()["id"]
    mission.until("select 1 from audit_entry where detail ->> 'operation' = %s", [operation])
    monkeypatch.setattr(settings, "WHOLE_LINES", 1)

    async def whole() -> Any:
        async with (
            await psycopg.AsyncConnection.connect(mission.url(OWNER), row_factory=dict_row) as link,
            link.transaction(),
        ):
            return await settings.verify(link, None)  # type: ignore[arg-type]

    with pytest.raises(Problem) as refused:
        asyncio.run(whole())
    assert "send after=0" in refused.value.remedy and "control.audit" in refused.value.remedy
