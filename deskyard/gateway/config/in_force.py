"""The settings that are in force in this gateway."""

from deskyard.errors import GatewayError
from deskyard.gateway.machine import files
from deskyard.gateway.machine.layout import Layout
from deskyard.wire.gateway_settings import Settings, parse


def in_force(layout: Layout) -> Settings:
    """The settings that `apply` installed; raises `GatewayError` if there are none yet."""
    text = files.read(layout.settings_file)
    if text is None:
        remedy = "send the settings with deskyard-gateway apply first"
        raise GatewayError("settings", str(layout.settings_file), "are not there yet", remedy)
    return parse(text)
