"""Which backend a site has is decided at the seam: what is above it asks the seam, not the site."""

import ast
from pathlib import Path

from tests.support.sources import parsed

TREE = Path(__file__).resolve().parents[2]
# Below the seam each backend has its own side; the seam itself is in `engine/`, the declaration chooses the Plan.
OWN_SIDES = ("model", "plan", "site", "declaration", "engine")
# Who asks all the same, and why.
KNOWN = {
    "deskyard/image/warm.py": "below the seam: makes templates of libvirt alone, and refuses the rest",
    "deskyard/control/jobs/observer.py": "reads a file where there is one, in place of asking",
}


def asked(tree: ast.Module) -> list[int]:
    """The lines of a module that compare a site's backend, or decide by whether a cluster has a workspace."""
    found = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Compare) and _named(node, {"backend"})]
    decisions = [node.test for node in ast.walk(tree) if isinstance(node, ast.If | ast.IfExp | ast.While)]
    return sorted({*found, *(test.lineno for test in decisions if _named(test, {"on_cluster"}))})


def _named(node: ast.AST, names: set[str]) -> bool:
    return any(isinstance(inner, ast.Attribute) and inner.attr in names for inner in ast.walk(node))


def test_nobody_above_the_seam_decides_by_the_backend() -> None:
    rooms = [path for path in sorted((TREE / "deskyard").iterdir()) if path.is_dir() and path.name not in OWN_SIDES]
    asking = {
        str(path.relative_to(TREE)): lines
        for room in rooms
        for path in sorted(room.rglob("*.py"))
        if (lines := asked(parsed(path)))
    }
    print(asking)
    assert set(asking) == set(KNOWN)


def test_a_decision_by_the_backend_is_seen() -> None:
    assert asked(parsed('if site.backend == "proxmox":\n    pass\n')) == [1]
    assert asked(parsed("way = None if declared.on_cluster else declared.image_sources()\n")) == [1]
    assert asked(parsed("backend.clear(name, stack.on_cluster)\n")) == []
