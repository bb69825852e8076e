#!/usr/bin/env bash
# Runs inside the container, as root, under its systemd: the life of an installed package.
set -euo pipefail
source /tests/documents.sh
source /tests/wait.sh

passed=0
scratch=$(mktemp -d)
step=start
begin() {
  step=$1
  printf '   %s\n' "$step"
}
finish() {
  local status=$?
  if ((status == 0)); then return; fi
  printf 'FAILED: %s\n' "$step"
  journalctl --no-pager --lines=40 --output=cat || true
  exit "$status"
}
trap finish EXIT
ok() { passed=$((passed + 1)); }

# Runs the command line as the engine's user, with the engine's settings.
engine() {
  runuser -u leafseal -- env LEAFSEAL_DIR=/var/lib/leafseal LEAFSEAL_CONFIG=/etc/leafseal/leafseal.toml leafseal "$@"
}
round_trip() {
  local document='{"card":"4111111111111111"}' sealed
  sealed=$(engine encrypt --connect localhost:3443 --client billing --app acme --select '$.card' <<<"$document")
  [[ $sealed == *ev:* ]]
  [[ $(engine decrypt --connect localhost:3443 --client billing --app acme <<<"$sealed") == "$document" ]]
}
# The files of the system, without what any installation writes: logs, caches and backups of the lists of users and packages.
files() {
  find / -xdev \( -path /proc -o -path /sys -o -path /run -o -path /tmp -o -path /results -o -path /var/log -o -path /var/cache \
    -o -path /var/lib/dpkg -o -path /var/lib/systemd -o -path /var/tmp \) -prune -o -print | grep -v -e '^/etc/[a-z]*-$' | sort
}
property() { systemctl show --value --property "$2" "$1"; }
# Reads all of the journal: a reader that left early would end journalctl with an error.
logged() { journalctl --unit "$1" --output=cat --no-pager | grep -F "$2"; }
stopped_gracefully() {
  [[ $(property "$1" Result) == success && $(property "$1" ExecMainCode) == 1 && $(property "$1" ExecMainStatus) == 0 ]]
}

# A fresh Debian has no names at all.
echo '127.0.0.1 localhost' >/etc/hosts
files >"$scratch/before"

begin 'installs, with services that are neither enabled nor running'
dpkg --install /package.deb
for name in leafseal leafseal-relay; do
  (($(id -u "$name") > 0 && $(id -u "$name") < 1000))
  [[ $(getent passwd "$name") == *:/usr/sbin/nologin ]]
  [[ $(stat --format='%a %U' "/var/lib/$name") == "700 $name" ]]
  [[ $(systemctl is-enabled "$name" || true) == disabled ]]
  [[ $(systemctl is-active "$name" || true) == inactive ]]
done
[[ -f /usr/share/man/man1/leafseal-keys-create.1.gz ]]
ok

begin 'carries the licences of its libraries and a changelog'
check_documents ''
ok

begin 'without a keystore the engine is skipped, not failed'
systemctl start leafseal
[[ $(property leafseal ConditionResult) == no && $(systemctl is-failed leafseal || true) != failed ]]
ok

begin 'serves under the restrictions of its unit, set up by the commands of the guide'
awk '/^```console/ && before !~ /^<!-- not run: / { inside = 1; next } /^```/ { inside = 0 } { before = $0 } inside' /installation.md >"$scratch/guide.sh"
grep -q 'systemctl enable' "$scratch/guide.sh"
bash -euo pipefail -x "$scratch/guide.sh"
until_true 'the engine is ready' is_ready 3444
[[ ! -e /var/lib/leafseal/root.key ]]
round_trip
ok

begin 'the restrictions are in force'
pid=$(property leafseal MainPID)
status() { sed -n "s/^$1:\t//p" "/proc/$pid/status"; }
[[ $(status Seccomp) == 2 && $(status NoNewPrivs) == 1 && $(status CapEff) == 0000000000000000 && $(status CapBnd) == 0000000000000000 ]]
[[ $(status Uid | cut -f1) == "$(id -u leafseal)" ]]
for path in /usr/bin/x /etc/leafseal/x /var/lib/x; do
  if nsenter --target "$pid" --mount touch "$path" 2>/dev/null; then false; fi
done
if nsenter --target "$pid" --mount ls /root 2>/dev/null | grep .; then false; fi
ok

begin 'reloads, and keeps its settings when the new ones are wrong'
systemctl reload leafseal
until_true 'the engine logs the reload' logged leafseal 'engine reloaded'
cp /etc/leafseal/leafseal.toml "$scratch/"
echo 'server.no_such_key = 1' >>/etc/leafseal/leafseal.toml
systemctl reload leafseal
until_true 'the engine logs why it does not reload' logged leafseal 'engine not reloaded'
cp "$scratch/leafseal.toml" /etc/leafseal/
round_trip
ok

begin 'renews certificates by a timer that is not enabled'
[[ $(systemctl is-enabled leafseal-renew.timer || true) == disabled && $(systemctl is-active leafseal-renew.timer || true) == inactive ]]
mkdir -p /etc/systemd/system/leafseal-renew.service.d
cp /etc/systemd/system/leafseal.service.d/root-key.conf /etc/systemd/system/leafseal-renew.service.d/
systemctl daemon-reload
systemctl start leafseal-renew
[[ $(property leafseal-renew Result) == success && $(property leafseal-renew ExecMainStatus) == 0 ]]
[[ $(property leafseal-renew.timer Unit) == leafseal-renew.service ]]
rm -r /etc/systemd/system/leafseal-renew.service.d
systemctl daemon-reload
ok

begin 'the package for TPMs adds a drop-in of the service, and its removal takes it away'
# Without the TSS, which this system does not have: its files alone.
dpkg --install --force-depends /tpm2.deb
[[ $(property leafseal PrivateDevices) == no && $(property leafseal SupplementaryGroups) == tss ]]
dpkg --remove --force-depends leafseal-tpm2
[[ $(property leafseal PrivateDevices) == yes && ! -e /usr/bin/leafseal-tpm2 ]]
dpkg --purge leafseal-tpm2
ok

begin 'stops gracefully'
systemctl stop leafseal
stopped_gracefully leafseal
ok

begin 'the relay encrypts on the way to a service, as a user of its own without access to the keystore'
systemctl start leafseal
until_true 'the engine is ready' is_ready 3444
cp /tests/relay.toml /etc/leafseal/relay.toml
# Without compiled copies of modules, which would be left on the system.
python3 -B /tests/upstream.py 8080 &
upstream=$!
until_true 'the service behind the relay answers' curl --fail --silent http://127.0.0.1:8080/
# Enabled, so that systemd remembers how it ended.
systemctl enable --now leafseal-relay
until_true 'the relay is ready' is_ready 3445
pid=$(property leafseal-relay MainPID)
[[ $(status Seccomp) == 2 && $(status CapEff) == 0000000000000000 ]]
if runuser -u leafseal-relay -- ls /var/lib/leafseal 2>/dev/null; then false; fi
payment='{"card":"4111111111111111","amount":12.50}'
# The service returns what it received.
received=$(curl --fail --silent --show-error --json "$payment" http://127.0.0.1:8444/payments)
[[ $received == '{"card":"ev:'*':$","amount":12.50}' ]]
[[ $(engine decrypt --connect localhost:3443 --client billing --app acme <<<"$received") == "$payment" ]]
[[ $(curl --silent --output /dev/null --write-out '%{http_code}' --json "$payment" http://127.0.0.1:8444/other) == 404 ]]
systemctl reload leafseal-relay
until_true 'the relay logs the reload' logged leafseal-relay 'relay reloaded'
echo 'no_such_key = 1' >>/etc/leafseal/relay.toml
if systemctl reload leafseal-relay; then false; fi
is_ready 3445
systemctl stop leafseal-relay
stopped_gracefully leafseal-relay
kill "$upstream"
rm -r /etc/leafseal/relay.toml /var/lib/leafseal-relay/certs
ok

begin 'reinstalling restarts a running engine'
before=$(property leafseal MainPID)
dpkg --install /package.deb
until_true 'the engine is ready' is_ready 3444
[[ $(property leafseal MainPID) != "$before" ]]
round_trip
ok

begin 'removal stops the engine and keeps settings and keys'
dpkg --remove leafseal
[[ $(systemctl is-active leafseal || true) == inactive ]]
[[ ! -e /usr/bin/leafseal && -f /etc/leafseal/leafseal.toml && -f /etc/leafseal/root.key && -f /var/lib/leafseal/keystore.db ]]
ok

begin 'purge keeps keys, and leaves nothing else'
install -o leafseal -g leafseal -m 600 /etc/leafseal/root.key /var/lib/leafseal/root.key
rm -r /etc/systemd/system/leafseal.service.d /etc/leafseal/root.key
dpkg --purge leafseal
[[ ! -e /etc/leafseal && -f /var/lib/leafseal/root.key && -f /var/lib/leafseal/keystore.db && ! -e /var/lib/leafseal-relay ]]
dpkg --install /package.deb
round_trip_offline=$(engine encrypt --app acme <<<'{"a":"b"}')
[[ $round_trip_offline == *ev:* ]]
rm -rf /var/lib/leafseal/{*,.[!.]*}
dpkg --purge leafseal
systemctl daemon-reload
files >"$scratch/after"
diff "$scratch/before" "$scratch/after"
if getent passwd leafseal || getent passwd leafseal-relay; then false; fi
ok

echo "$passed passed, 0 failed"
