#!/usr/bin/env bash
# Whether one core of `fieldseal load` keeps a worker of the engine at 100 % with requests of 2,000 values.
#
#   benches/saturation.sh target/release/fieldseal [--set KEY=VALUE…]
#   benches/saturation.sh target/release/fieldseal --set engine.curve=k1 --set engine.keying=field
#
# An engine with one worker and these settings, and examples/load/saturate.yml against it on 32 connections. The tester, the engine's
# network thread and its worker each have a core of their own where the machine has three. Where it has two, each has the same part of
# one, by the system's CPU bandwidth (cgroup v1, as root): whoever uses all of its part is what limits the run, as with three
# cores. SHARE is that part, in percent.
set -euo pipefail

fieldseal=$(realpath "${1:-target/release/fieldseal}")
settings=("${@:2}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
share=${SHARE:-45}
period=5000
groups=/sys/fs/cgroup/cpu/fieldseal-saturation
[[ -x $fieldseal ]] || { echo "$fieldseal is no program: cargo build --release --package fieldseal-cli" >&2; exit 2; }

folder=$(mktemp -d)
engine=
finish() {
  [[ -n $engine ]] && kill "$engine" 2>/dev/null && wait "$engine" 2>/dev/null || true
  for group in "$groups"-{tester,net,work}; do rmdir "$group" 2>/dev/null || true; done
  rm -rf "$folder"
}
trap finish EXIT

"$fieldseal" --dir "$folder/store" dev --app dev --port 0 --no-relay --json \
  --set operator.address=127.0.0.1:0 --set api.address=127.0.0.1:0 --set server.workers=1 "${settings[@]}" \
  >"$folder/dev.json" 2>"$folder/dev.log" &
engine=$!
for _ in {1..200}; do [[ -s $folder/dev.json ]] && break; sleep 0.05; done
[[ -s $folder/dev.json ]] || { cat "$folder/dev.log" >&2; exit 1; }
port=$(sed -E 's/.*"address":"[^"]*:([0-9]+)".*/\1/' "$folder/dev.json")
sed -e "s#port: 3443#port: $port#; s#connections: 8#connections: 32#; s#, curve: r1##; s#../../.fieldseal/certs#$folder/store/certs#g" \
  "$here/../examples/load/saturate.yml" >"$folder/saturate.yml"

# threads NAME: ids of the engine's threads whose name begins so.
threads() { grep -l "^$1" /proc/"$engine"/task/*/comm | cut -d/ -f5; }

# part NAME CORE THREADS...: a core of its own, or a part of any.
part() {
  local name=$1 core=$2 thread
  shift 2
  for thread; do
    if (( $(nproc) >= 3 )); then taskset -pc "$core" "$thread" >/dev/null
    else
      mkdir -p "$groups-$name"
      echo $period >"$groups-$name/cpu.cfs_period_us"
      echo $((period * share / 100)) >"$groups-$name/cpu.cfs_quota_us"
      echo "$thread" >"$groups-$name/tasks"
    fi
  done
}

if (( $(nproc) >= 3 )); then echo 'tester, network thread and worker: a core each'
elif [[ -w /sys/fs/cgroup/cpu/cpu.shares ]]; then echo "tester, network thread and worker: $share % of a core each"
else echo 'needs three cores, or root and cgroup v1' >&2; exit 2; fi
part net 1 $(threads fieldseal-net)
part work 2 $(threads fieldseal-work)
# This shell, and so the tester.
part tester 0 $BASHPID
"$fieldseal" load "$folder/saturate.yml" --pid "$engine"
echo $BASHPID >/sys/fs/cgroup/cpu/tasks 2>/dev/null || true
for name in tester net work; do
  [[ -d $groups-$name ]] || continue
  awk -v name="$name" '/nr_periods/ {p=$2} /nr_throttled/ {t=$2} END {printf "%s: used up its part in %d of %d periods\n", name, t, p}' \
    "$groups-$name/cpu.stat"
done
