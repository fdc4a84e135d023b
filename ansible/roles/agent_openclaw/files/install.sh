#!/bin/sh
# Installs exactly what package-lock.json pins, here. Nothing of it is compiled, and no package runs a program of its own.
set -eu
# The authorities that the machine trusts, beside those that came with Node.
NODE_USE_SYSTEM_CA=1 npm ci --ignore-scripts --omit=dev --no-audit --no-fund --cache="$HOME/.cache/npm"
