"""Keys as the host makes them."""

import pytest

from deskyard.control.control import Control
from deskyard.errors import ConfigError


def test_a_key_that_is_bound_to_workspaces_is_not_made_an_admin() -> None:
    with pytest.raises(ConfigError, match="keys and people are of all") as refused:
        Control().key("ci", ["read", "admin"], ["team-a"], 30)
    assert refused.value.field == "--scopes"
