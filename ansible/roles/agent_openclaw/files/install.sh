#!/bin/sh
# Installs exactly what package-lock.json pins, here. Nothing of it is compiled, and no package runs a program of its own.
set -eu
# The authorities that the machine trusts, beside those that came with Node.
NODE_USE_SYSTEM_CA=1 npm ci --ignore-scripts --omit=dev --no-audit --no-fund --cache="$HOME/.cache/npm"
# OpenClaw ends when one of its threads is not ready after 5 s, and an emulated or loaded processor takes longer. What the
# thread renews holds for a minute or more. A version that says it in another way ends this script.
grep -rlxZ 'const LEASE_HEARTBEAT_START_TIMEOUT_MS = 5e3;' node_modules/openclaw/dist |
  xargs -0 sed -i 's/^const LEASE_HEARTBEAT_START_TIMEOUT_MS = 5e3;$/const LEASE_HEARTBEAT_START_TIMEOUT_MS = 6e4;/'
# A worker writes its transcripts, and each step of that has a minute; on such a processor a task was given up for it.
grep -lZ 'timeoutMs: 6e4' node_modules/openclaw/dist/session-transcript-*worker-runtime-*.mjs |
  xargs -0 sed -i 's/timeoutMs: 6e4/timeoutMs: 6e5/; s/performance\.now() + 6e4/performance.now() + 6e5/'
