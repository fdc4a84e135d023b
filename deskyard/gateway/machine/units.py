"""Asks systemd for its units by D-Bus: to start systemctl for it keeps an emulated gateway busy for a second."""

from collections.abc import Sequence

from jeepney import DBusAddress, DBusErrorResponse, new_method_call
from jeepney.io.blocking import open_dbus_connection
from jeepney.wrappers import unwrap_msg

MANAGER = DBusAddress(
    "/org/freedesktop/systemd1", bus_name="org.freedesktop.systemd1", interface="org.freedesktop.systemd1.Manager"
)
SECONDS = 10.0


def unit_states(names: Sequence[str]) -> list[str]:
    """The state of each unit as `systemctl is-active` has it; `unknown` of all if systemd does not answer."""
    question = new_method_call(MANAGER, "ListUnitsByNames", "as", (list(names),))
    try:
        with open_dbus_connection("SYSTEM", auth_timeout=SECONDS) as bus:
            (rows,) = unwrap_msg(bus.send_and_get_reply(question, timeout=SECONDS))
    except (OSError, DBusErrorResponse):
        rows = []
    # Name, description, whether it is loaded, and its state come first.
    states = {row[0]: row[3] for row in rows}
    return [states.get(name, "unknown") for name in names]
