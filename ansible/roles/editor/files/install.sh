#!/bin/sh
# Installs exactly what package-lock.json pins, here; the native modules are compiled with the headers of Node in $1.
set -eu
# The authorities that the machine trusts, beside those that came with Node; node-gyp would fetch the headers otherwise.
NODE_USE_SYSTEM_CA=1 npm_config_nodedir="$1" \
  npm ci --omit=dev --no-audit --no-fund --cache="$HOME/.cache/npm"
# Notes of npm's settings, a registry's name among them.
find . -path '*/build/config.gypi' -delete
