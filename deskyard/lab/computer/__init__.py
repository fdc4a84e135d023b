"""Measures the computer-use service beside E2B's way, on one screen in one run."""
