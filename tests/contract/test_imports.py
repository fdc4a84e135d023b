"""What a command of ./inv imports before it answers: never Pulumi for a list, a status or a link."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]
# What takes a tenth of a second and more.
HEAVY = ("pulumi", "jinja2", "pycdlib", "qemu", "PIL", "cyclonedx", "univers", "numpy")
LIST_TOO = (*HEAVY, "pydantic", "cryptography", "libvirt", "urllib3")


def imported(statement: str, watched: tuple[str, ...]) -> list[str]:
    """Which of the watched packages a fresh Python has imported after a statement."""
    script = f"import json, sys\n{statement}\nprint(json.dumps(sorted({set(watched)!r} & sys.modules.keys())))"
    argv = [sys.executable, "-c", script]
    done = subprocess.run(argv, cwd=TREE, capture_output=True, text=True, check=True, timeout=120)
    found: list[str] = json.loads(done.stdout)
    return found


def test_list_of_tasks_imports_none_of_the_work() -> None:
    assert imported("import tasks", LIST_TOO) == []
    own = "assert not [name for name in sys.modules if name.startswith(('deskyard.plan.', 'deskyard.model.'))]"
    assert imported(f"import tasks\n{own}", ()) == []


@pytest.mark.parametrize("module", ["access.access", "workspace.status", "life.pool.pool", "life.pool.filling"])
def test_status_access_and_claims_import_no_engine(module: str) -> None:
    assert imported(f"import deskyard.{module}", HEAVY) == []


def test_what_stays_on_this_machine_imports_no_client_of_a_cluster() -> None:
    modules = ("access.access", "workspace.status", "life.power", "life.pool.pool", "control.jobs.worker")
    assert imported("import " + ", ".join(f"deskyard.{name}" for name in modules), ("urllib3",)) == []


def test_a_status_imports_nothing_that_signs() -> None:
    assert imported("import deskyard.workspace.status", ("cryptography",)) == []


def test_a_status_of_mission_control_imports_none_of_it() -> None:
    work = (*LIST_TOO, "psycopg", "sqlalchemy", "alembic", "fastapi")
    assert imported("import deskyard.tasks.control, deskyard.control.state", work) == []
    assert {"psycopg", "alembic"} <= set(imported("import deskyard.control.control", work))


@pytest.mark.parametrize("module", ["jobs.worker", "control"])
def test_worker_and_tasks_of_mission_control_import_nothing_that_serves_the_web(module: str) -> None:
    web = ("fastapi", "starlette")
    assert imported(f"import deskyard.control.{module}", web) == []
    assert imported("import deskyard.control.web.application", web) == sorted(web)


def test_a_provider_loads_no_automation_unless_somebody_looks() -> None:
    begin = "import os; from stacks.provider.untouched import leave_untouched; leave_untouched(os.environ)"
    serve = "from pulumi.provider.experimental.server import main; import pulumi, stacks.provider.provider"
    look = "assert pulumi.automation.LocalWorkspace and pulumi.dynamic.Resource and pulumi.runtime.mocks"
    # Each is a part of what is left for later: of automation, of dynamic resources, and of traces.
    parts = ("pulumi.automation._stack", "dill", "opentelemetry.sdk.trace")
    assert imported(f"{begin}\n{serve}", parts) == []
    assert imported(f"{begin}\n{serve}\n{look}", parts[:2]) == sorted(parts[:2])
    assert imported(serve, parts) == sorted(parts)


def test_a_provider_of_a_traced_engine_begins_its_traces_at_once() -> None:
    begin = "from stacks.provider.untouched import leave_untouched; leave_untouched({'TRACEPARENT': '00-1'})"
    assert imported(f"{begin}\nimport pulumi", ("opentelemetry.sdk.trace",)) == ["opentelemetry.sdk.trace"]


@pytest.mark.parametrize("module", ["config.keys", "egress.watch", "egress.ask.deciders", "session.line"])
def test_programs_that_a_gateway_starts_often_render_no_configuration_and_sign_nothing(module: str) -> None:
    assert (
        imported(f"import deskyard.gateway.cli, deskyard.gateway.{module}", (*HEAVY, "cryptography", "asyncio")) == []
    )


def test_a_gateway_puts_settings_into_force_without_what_makes_certificates() -> None:
    assert imported("import deskyard.gateway.config.apply", ("cryptography", "asyncio")) == []


def test_what_is_imported_is_seen() -> None:
    assert "pulumi" in imported("import deskyard.workspace.workspace", HEAVY)
    assert "urllib3" in imported("import deskyard.engine.on_proxmox", ("urllib3",))
