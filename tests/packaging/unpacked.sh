#!/usr/bin/env bash
# The engine of a package that is unpacked below the folder $1, first in PATH.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
source "$here/documents.sh"
source "$here/wait.sh"
root=$1

for file in usr/lib/systemd/system/leafseal.service usr/lib/systemd/system/leafseal-renew.service \
  usr/lib/systemd/system/leafseal-renew.timer usr/share/man/man1/leafseal-keys-create.1.gz \
  usr/share/bash-completion/completions/leafseal etc/leafseal/leafseal.toml; do
  [[ -f $root/$file ]] || { echo "the package has no $file" >&2 && exit 1; }
done
check_documents "$root"
leafseal keys create acme
leafseal certs init --name localhost
leafseal certs issue billing --app acme --allow encrypt,decrypt
leafseal serve --address 127.0.0.1:0 --json >"$root/address" 2>"$root/log" &
engine=$!
trap 'kill "$engine" 2>/dev/null || true' EXIT
until_true 'the engine prints its address' test -s "$root/address"
address=$(sed 's/.*"address":"[^"]*:\([0-9]*\)".*/localhost:\1/' "$root/address")
echo '{"card":"4111"}' | leafseal encrypt --connect "$address" --app acme --select '$.card' |
  leafseal decrypt --connect "$address" --app acme | grep -qF '{"card":"4111"}'
kill -TERM "$engine"
wait "$engine"
echo '1 passed, 0 failed'
