"""The accounts of a desktop and its disk of /home: images rely on them, and all that reaches a desktop."""

# What the desktop, the terminal and the agent run as; it has a group of the same name.
AGENT = "agent"
# What Deskyard itself comes in as, by SSH through the gateway.
MANAGER = "deskyard"
# The serial number of the disk that holds /home; role `home_volume` looks for it.
HOME_SERIAL = "home"
