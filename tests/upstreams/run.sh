#!/usr/bin/env bash
# Ambiguous requests (vectors/ambiguous) through the relay to real upstreams: PHP, Symfony, Express, formidable, Flask, Django, Go,
# Rack, Tomcat with Jackson, and libraries for JSON Patch.
#
#   LEAFSEAL=target/checked/leafseal tests/upstreams/run.sh [pytest arguments]
#
# Needs Python 3.11 with venv and Node 20 with npm. As root it installs PHP, Symfony, Go, Ruby with Sinatra and Puma, and a JDK with Maven from
# Debian where they are missing; without root, what is missing is skipped by name, and a failure in CI (CI=true) unless it is Ruby.
# Pinned packages go to target/upstreams and node_modules. The tests reach nothing but 127.0.0.1.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
suite=tests/upstreams
source "$here/../common.sh"
use_leafseal
need_python
need_node
built=$root/target/upstreams
mkdir -p "$built"

has() { command -v "$1" >/dev/null; }
has_symfony() { has php && [[ -f /usr/share/php/Symfony/Component/HttpFoundation/autoload.php ]]; }
has_rack() { has ruby && ruby -e 'require "sinatra/base"; require "puma"' 2>/dev/null; }

debian_packages() {
  local missing=()
  has php || missing+=(php-cli)
  has_symfony || missing+=(php-symfony-http-foundation)
  has go || missing+=(golang-go)
  has_rack || missing+=(ruby ruby-sinatra puma)
  has javac || missing+=(default-jdk-headless)
  has mvn || missing+=(maven)
  ((${#missing[@]} == 0)) && return 0
  if ! has apt-get || [[ $(id -u) != 0 ]]; then
    echo "== upstreams: not installed (names of Debian packages): ${missing[*]}"
    return 0
  fi
  echo "== upstreams: apt-get install ${missing[*]}"
  apt-get update -qq || true
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
    echo '== upstreams: some cannot be installed here'
}

# needs_build STAMP FILE...: whether the last build that succeeded was made of other content than FILE...; sets $wanted.
needs_build() {
  local stamp=$1
  shift
  wanted=$(cat "$@" | sha256sum)
  [[ ! -f $stamp || $(<"$stamp") != "$wanted" ]]
}

build_go() {
  local wanted
  needs_build "$built/go.stamp" "$here"/go/* || return 0
  echo '== upstreams: build the upstream in Go'
  (cd "$here/go" && GOTOOLCHAIN=local go build -o "$built/go-upstream" .)
  printf '%s\n' "$wanted" >"$built/go.stamp"
}

build_tomcat() {
  local wanted
  needs_build "$built/tomcat.stamp" "$here"/tomcat/* || return 0
  echo '== upstreams: build the upstream on Tomcat'
  rm -rf "$built/tomcat"
  mvn -q -B -f "$here/tomcat/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
    -DoutputDirectory="$built/tomcat/lib"
  (cd "$built/tomcat/lib" && sha256sum --quiet --check "$here/tomcat/checksums.txt")
  javac -d "$built/tomcat/classes" -cp "$built/tomcat/lib/*" "$here/tomcat/Upstream.java"
  printf '%s\n' "$wanted" >"$built/tomcat.stamp"
}

debian_packages
install_python "$root/target/interop/venv" "$here/../interop/requirements.txt"
install_python "$built/venv" "$here/python/requirements.txt"
install_npm tests/upstreams/express
export UPSTREAMS='express python'
! has php || UPSTREAMS+=' php'
! has_symfony || UPSTREAMS+=' symfony'
! has go || { build_go && UPSTREAMS+=' go'; }
! has_rack || UPSTREAMS+=' rack'
! { has javac && has mvn; } || { build_tomcat && UPSTREAMS+=' tomcat'; }

echo '== upstreams: pytest'
# The fixtures are those of tests/interop.
export PYTHONPATH=$here/../interop
run_pytest --rootdir "$here" -p conftest "$here" "$@"
