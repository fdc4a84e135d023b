"""What callers are told while the database is away or full: to come again, and what to do; never a bare 500."""

import asyncio
import json
from unittest import mock

import psycopg
import psycopg_pool
import pytest
from starlette.requests import Request

from deskyard.control.api import problem
from deskyard.control.web import application


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (psycopg.OperationalError("the connection is lost"), "does not answer now"),
        (psycopg_pool.PoolTimeout("none in time"), "does not answer now"),
        (psycopg.errors.AdminShutdown("terminating"), "does not answer now"),
        (psycopg.errors.DiskFull("could not extend file"), "has no room left on its disk"),
    ],
)
def test_a_database_that_is_away_or_full_is_named_with_what_to_do(error: Exception, reason: str) -> None:
    answer = asyncio.run(problem.no_database(Request({"type": "http"}), error))
    said = json.loads(bytes(answer.body))
    assert (answer.status_code, said["field"], said["reason"]) == (503, "database", reason)
    assert said["remedy"] and int(answer.headers["retry-after"])
    assert str(error) not in bytes(answer.body).decode()


def test_the_api_answers_so_whatever_call_it_was() -> None:
    app = application.create("postgresql:///none", "https://mission.localhost:9443", mock.Mock())
    assert app.exception_handlers[psycopg.OperationalError] is problem.no_database
