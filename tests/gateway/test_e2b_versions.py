"""E2B's client for Python in the oldest version that the documentation names, and in the newest there is.

The lock has one version; the tests that drive the door and a desktop by that are run with these here.
"""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.deep

TREE = Path(__file__).resolve().parents[2]
TESTS = (
    "tests/unit/computer/envd/test_e2b_sync.py",
    "tests/unit/computer/envd/test_e2b_async.py",
    "tests/unit/sdk/test_e2b.py",
    "tests/control/test_e2b.py",
    "tests/control/test_e2b_pause.py",
    "tests/control/test_e2b_tasks.py",
    "tests/gateway/test_e2b.py",
    "tests/gateway/test_e2b_domain.py",
    "tests/gateway/test_e2b_stream.py",
    "tests/computer/test_e2b_desktop.py",
)
# It has neither the call `stream_input` nor the option `idempotency_key`.
LACKING = (
    f"{TESTS[0]}::test_input_is_sent_streamed_and_closed",
    f"{TESTS[5]}::test_both_ways_come_as_they_are_said",
    f"{TESTS[4]}::test_the_same_wish_is_the_same_sandbox_also_after_a_restart",
)
VERSION = "from importlib.metadata import version; print(version('e2b'))"


@pytest.mark.parametrize(
    ("wanted", "lacking"), [("==2.45.1", LACKING), (">=2.63", ())], ids=["the-oldest", "the-newest"]
)
def test_the_clients_tests_pass_with_another_version(tmp_path: Path, wanted: str, lacking: tuple[str, ...]) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    packages = tmp_path / "packages"
    pip = [str(tmp_path / "venv/bin/pip"), "install", "--quiet", "--target", str(packages), f"e2b{wanted}"]
    subprocess.run(pip, check=True, timeout=600)
    # 2.45 takes keys of E2B's own form alone, unless it is told.
    environment = {**os.environ, "PYTHONPATH": str(packages), "E2B_VALIDATE_API_KEY": "false"}
    found = subprocess.check_output([sys.executable, "-c", VERSION], env=environment, text=True).strip()
    assert (packages / f"e2b-{found}.dist-info").is_dir()
    left_out = [f"--deselect={test}" for test in lacking]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *left_out, *TESTS]
    done = subprocess.run(command, cwd=TREE, env=environment, capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, f"e2b {found}: {done.stdout[-5000:]}{done.stderr[-2000:]}"
