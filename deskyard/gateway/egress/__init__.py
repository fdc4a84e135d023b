"""The way out of a workspace, as its gateway sees it: refusals, grants for a time."""
