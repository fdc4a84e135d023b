"""The sample of mutants is the longest test of a run in parallel."""

from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with it: at the end it would keep one process busy, and the others idle."""
    items.sort(key=lambda item: not item.path.is_relative_to(HERE))
