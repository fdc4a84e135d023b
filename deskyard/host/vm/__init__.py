"""Throw-away virtual machines of this machine: for builds, tests and measurements."""
