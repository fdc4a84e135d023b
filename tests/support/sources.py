"""Python's sources as trees, for tests that read code."""

import ast
import gc
from pathlib import Path


def parsed(source: str | Path) -> ast.Module:
    """The tree of a text, or of a file.

    Nothing is collected meanwhile: a finalizer that parses, as one does that prints a traceback, makes Python 3.11
    fail with "AST constructor recursion depth mismatch" (python/cpython#106905).
    """
    text = source.read_text() if isinstance(source, Path) else source
    collected = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        if collected:
            gc.enable()
