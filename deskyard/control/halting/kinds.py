"""The operations that stop an agent and let it go on, and whom they wait for. Pure."""

FREEZE, THAW = "desktop.freeze", "desktop.thaw"
KINDS = (FREEZE, THAW)


def lane(kind: str, desktop: str) -> str | None:
    """Of one desktop they come in order; they wait for nobody who moves its workspace, since they move no machine."""
    return f"agent:{desktop}" if kind in KINDS else None
