"""Processes of the tests find their modules compiled, wherever the bytecode is kept."""

import subprocess
import sys
from pathlib import Path

TREE = Path(__file__).parents[2]
# Where Python keeps what it made of a module, and whether it did.
LOOK = "import deskyard.errors as m, os; print(m.__cached__, os.path.exists(m.__cached__))"


def test_process_that_a_test_starts_keeps_the_bytecode_of_what_it_imports() -> None:
    found = subprocess.run([sys.executable, "-c", LOOK], cwd=TREE, capture_output=True, text=True, check=True).stdout
    assert found.endswith(".pyc True\n"), found
