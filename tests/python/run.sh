#!/usr/bin/env bash
# The Python package: its wheel in a virtual environment, against engines in process and a running one, and the independent decryptor.
#
#   LEAFSEAL=target/checked/leafseal tests/python/run.sh [pytest arguments]
#   CASES=1000000 LEAFSEAL=… tests/python/run.sh    longer: random values through the independent decryptor, and a column for each 20
#   LEAFSEAL=… tests/python/run.sh spark            the functions for Spark; needs JDK 17 or newer, downloads half a gigabyte once
#   WORKSPACE_BUILD=target/checked LEAFSEAL=… tests/python/run.sh    without a wheel, around the library in this folder
#
# Needs Python 3.11 with venv, PostgreSQL, and Rust for the native part (PROFILE names cargo's profile, checked by default). Installs
# pinned packages once, below target/python. The tests themselves talk to 127.0.0.1 alone.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
suite=tests/python
source "$here/../common.sh"
use_leafseal
need_python

venv=$root/target/python/venv
install_python "$venv" "$here/requirements.txt"
if [[ ${1:-} == spark ]]; then
  command -v java >/dev/null || [[ -n ${JAVA_HOME:-} ]] || die 'install JDK 17 or newer'
  venv=$root/target/python/spark
  install_python "$venv" "$here/requirements-spark.txt"
fi

build_wheel() {
  echo '== python: build the wheel'
  local wheels=$root/target/python/wheels-$(basename "$venv")
  rm -rf "$wheels"
  (
    cd "$root/bindings/python"
    "$root/target/python/venv/bin/maturin" build --quiet --locked --profile "${PROFILE:-checked}" --out "$wheels"
  )
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps --force-reinstall "$wheels"/*.whl
}

if [[ -n ${WORKSPACE_BUILD:-} ]]; then
  library=$WORKSPACE_BUILD/libleafseal_native.$([[ $(uname) == Darwin ]] && echo dylib || echo so)
  [[ -f $library ]] || die "$library is missing: make test builds it, or leave WORKSPACE_BUILD out"
  echo '== python: the package around the library of cargo'
  packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  "$venv/bin/pip" uninstall --quiet --yes leafseal 2>/dev/null || true
  rm -rf "${packages:?}/leafseal"
  cp -r "$root/bindings/python/python/leafseal" "$packages"
  cp "$library" "$packages/leafseal/_native.abi3.so"
else
  build_wheel
fi

export PYTEST_VENV=$venv
if [[ ${1:-} == spark ]]; then
  shift
  echo '== python: pytest, Spark'
  run_pytest --rootdir "$here/spark" "$here/spark" "$@"
  exit
fi
echo '== python: mypy'
"$venv/bin/mypy" --strict --no-incremental --cache-dir /dev/null "$here/typed.py"
echo '== python: pytest'
run_pytest --rootdir "$here" --ignore "$here/spark" "$here" "$@"
