"""HAProxy's table of when programs used their desktops last."""

from deskyard.wire.computer import SCOPES, SEE

TABLE = "uses_of_session"
KEEP_SECONDS = 24 * 3600  # the host looks more often
# Whoever has one of them may do more than look.
WORKING = tuple(scope for scope in SCOPES if scope != SEE)
