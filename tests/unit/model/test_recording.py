"""A desktop is recorded where its declaration says so, within bounds that fit it, and nowhere else."""

from typing import Any

import pytest

from deskyard.computer.recording.asked import Asked
from deskyard.errors import ConfigError
from deskyard.model.site import Site
from deskyard.model.workspace import Workspace
from deskyard.plan.workspace import plan_workspace


def planned(desktop: Any = None, workspace: Any = None) -> Asked | None:
    """What is asked of the first of two desktops; the second says that it is not recorded."""
    values: dict[str, Any] = {"name": "lab", "network": "10.80.1.0/24"}
    values |= {} if workspace is None else {"recording": workspace}
    first = {"name": "dev1"} | ({} if desktop is None else {"recording": desktop})
    values["desktops"] = [first, {"name": "dev2", "recording": "off"}]
    plan = plan_workspace(Workspace.check(values, "Pulumi.lab.yaml"), Site(name="local"), "tcg")
    assert plan.reached("dev2").recording is None
    marked = [reached.recorded for reached in plan.gateway.settings.desktops]
    assert marked == [plan.reached("dev1").recording is not None, False]
    return plan.reached("dev1").recording


@pytest.mark.parametrize(
    ("desktop", "workspace", "asked"),
    [
        (None, None, None),
        ({}, None, Asked(86400, 2 << 30)),
        (None, {"keep": "7d", "size": "512MiB"}, Asked(7 * 86400, 512 << 20)),
        ("off", {}, None),
        ({"keep": "1h"}, {"keep": "7d"}, Asked(3600, 2 << 30)),
    ],
)
def test_desktop_is_recorded_as_it_or_its_workspace_says(desktop: Any, workspace: Any, asked: Asked | None) -> None:
    assert planned(desktop, workspace) == asked


@pytest.mark.parametrize(
    ("recording", "reason"),
    [
        ({"keep": "59m"}, "is not between an hour and 366 days"),
        ({"keep": "367d"}, "is not between an hour and 366 days"),
        ({"keep": "1w"}, "is no duration"),
        ({"size": "63MiB"}, "is not between 64MiB and 1024GiB"),
        ({"size": "2GB"}, "write a number and MiB or GiB, such as 2GiB"),
        ({"size": "6GiB"}, "is more than half of /home (10 GiB) of desktop dev1"),
        ({"age": "2h"}, "not a known key"),
        ("on", "recording"),
    ],
)
def test_what_cannot_be_kept_is_named(recording: Any, reason: str) -> None:
    for desktop, workspace in ((recording, None), (None, recording)):
        with pytest.raises(ConfigError) as caught:
            planned(desktop, workspace)
        assert reason in str(caught.value)
