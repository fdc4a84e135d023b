"""The accounts of a desktop, which images make and everything else relies on."""

# What the desktop, the terminal and the agent run as; it has a group of the same name.
AGENT = "agent"
# What Deskyard itself comes in as, by SSH through the gateway.
MANAGER = "deskyard"
