#!/usr/bin/env bash
# Whether one core of `leafseal load` keeps a worker of the engine at 100 % with requests of 2,000 values.
#
#   benches/saturation.sh target/release/leafseal [--set KEY=VALUE…]
#   benches/saturation.sh target/release/leafseal --set engine.curve=k1 --set engine.keying=field
#   benches/saturation.sh target/release/leafseal --set server.network_threads=2
#
# An engine with one worker and these settings, and examples/load/saturate.yml against it on 32 connections. The tester, each network
# thread of the engine and its worker have a core of their own where the machine has as many. Where it has fewer, each has the same
# part of one, by the system's CPU bandwidth (cgroup v1, as root): the process that uses all of its part limits the run, as with cores of
# their own. SHARE is that part, in percent; by default seven tenths of what the cores come to for each, so that none waits for another.
set -euo pipefail

leafseal=$(realpath "${1:-target/release/leafseal}")
settings=("${@:2}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
period=5000
groups=/sys/fs/cgroup/cpu/leafseal-saturation
[[ -x $leafseal ]] || { echo "$leafseal is no program: cargo build --release --package leafseal-cli" >&2; exit 2; }

folder=$(mktemp -d)
engine=
finish() {
  [[ -n $engine ]] && kill "$engine" 2>/dev/null && wait "$engine" 2>/dev/null || true
  for group in "$groups"-{tester,net,work}; do rmdir "$group" 2>/dev/null || true; done
  rm -rf "$folder"
}
trap finish EXIT

"$leafseal" --dir "$folder/store" dev --app app_dev --port 0 --no-relay --json \
  --set operator.address=127.0.0.1:0 --set api.address=127.0.0.1:0 --set server.workers=1 "${settings[@]}" \
  >"$folder/dev.json" 2>"$folder/dev.log" &
engine=$!
for _ in {1..200}; do [[ -s $folder/dev.json ]] && break; sleep 0.05; done
[[ -s $folder/dev.json ]] || { cat "$folder/dev.log" >&2; exit 1; }
port=$(sed -E 's/.*"address":"[^"]*:([0-9]+)".*/\1/' "$folder/dev.json")
sed -e "s#port: 3443#port: $port#; s#connections: 8#connections: 32#; s#, curve: r1##; s#../../.leafseal/certs#$folder/store/certs#g" \
  "$here/../examples/load/saturate.yml" >"$folder/saturate.yml"

# threads NAME: ids of the engine's threads whose name begins so.
threads() { grep -l "^$1" /proc/"$engine"/task/*/comm | cut -d/ -f5; }

net=($(threads leafseal-net))
work=($(threads leafseal-work))
wanted=$((${#net[@]} + ${#work[@]} + 1))
share=${SHARE:-$((70 * $(nproc) / wanted))}
share=$((share < 90 ? share : 90))
core=0

# part NAME THREADS...: a core of its own for each, or the same part of any for each.
part() {
  local name=$1 thread
  shift
  for thread; do
    if (( $(nproc) >= wanted )); then
      taskset -pc "$core" "$thread" >/dev/null
      core=$((core + 1))
    else
      mkdir -p "$groups-$name"
      echo $period >"$groups-$name/cpu.cfs_period_us"
      echo $((period * share * $# / 100)) >"$groups-$name/cpu.cfs_quota_us"
      echo "$thread" >"$groups-$name/tasks"
    fi
  done
}

if (( $(nproc) >= wanted )); then echo 'tester, network threads and worker: a core each'
elif [[ -w /sys/fs/cgroup/cpu/cpu.shares ]]; then echo "tester, network threads and worker: $share % of a core each"
else echo "needs $wanted cores, or root and cgroup v1" >&2; exit 2; fi
part net "${net[@]}"
part work "${work[@]}"
# This shell, and so the tester.
part tester $BASHPID
"$leafseal" load "$folder/saturate.yml" --pid "$engine"
echo $BASHPID >/sys/fs/cgroup/cpu/tasks 2>/dev/null || true
for name in tester net work; do
  [[ -d $groups-$name ]] || continue
  awk -v name="$name" '/nr_periods/ {p=$2} /nr_throttled/ {t=$2} END {printf "%s: used up its part in %d of %d periods\n", name, t, p}' \
    "$groups-$name/cpu.stat"
done
