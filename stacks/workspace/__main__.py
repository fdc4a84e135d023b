"""`pulumi up` starts here; the tasks run the same program through the Automation API."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from stacks.program import workspace_program

workspace_program()
