"""The JavaScript client, by its own tests in node."""

import subprocess
from pathlib import Path

from tests.support.requirements import need_programs

FOLDER = Path(__file__).resolve().parents[3] / "sdk/js"


def test_javascript_client_has_a_method_for_each_operation_and_passes_its_own_tests() -> None:
    need_programs("node")
    done = subprocess.run(
        ["node", "--test", "desktop.test.js"], cwd=FOLDER, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0 and "# fail 0" in done.stdout and "# pass 0" not in done.stdout, done.stdout


def test_what_is_generated_is_checked_by_the_generator_too() -> None:
    need_programs("node")
    done = subprocess.run(
        ["node", "generate.js", "--check"], cwd=FOLDER, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
