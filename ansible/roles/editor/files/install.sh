#!/bin/sh
# Installs exactly what package-lock.json pins, here; the native modules are compiled with the headers of Node in $1.
set -eu
# The authorities that the machine trusts, beside those that came with Node; node-gyp would fetch the headers otherwise.
NODE_USE_SYSTEM_CA=1 npm_config_nodedir="$1" \
  npm ci --omit=dev --no-audit --no-fund --cache="$HOME/.cache/npm"
# Notes of npm's settings, a registry's name among them.
find . -path '*/build/config.gypi' -delete
# Its parts give each other 10 s to load, which an emulated or loaded processor misses. A version that says it in another
# way ends this script.
grep -qx 'const timeoutInterval = 10000; // .*' node_modules/code-server/out/node/wrapper.js
sed -i 's/^const timeoutInterval = 10000;/const timeoutInterval = 120000;/' node_modules/code-server/out/node/wrapper.js
# What only works with an account at Microsoft's assistant, a third of it all; the role's settings switch it off. A version
# that has it elsewhere ends this script.
cd node_modules/code-server/lib/vscode
ls -d extensions/copilot node_modules/@github/copilot-sdk node_modules/@microsoft/mxc-sdk >/dev/null
rm -r extensions/copilot node_modules/@github/copilot-sdk* node_modules/@microsoft/mxc-sdk
