"""The command line takes what the tasks' help says."""

import pytest

from tasks import ns

TASKS = {name: ns[name] for name in ns.task_names}


@pytest.mark.parametrize("name", TASKS)
def test_what_stands_without_a_flag_has_no_default(name: str) -> None:
    # Invoke takes a positional argument that has a value already for a task's name.
    arguments = TASKS[name].get_arguments()
    assert [argument.name for argument in arguments if argument.positional and argument.default is not None] == []
