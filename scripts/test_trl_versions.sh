#!/usr/bin/env bash
# Run the TRL adapter's tests against given TRL releases, each in an environment of its own.
#
#   scripts/test_trl_versions.sh 1.0.0 1.16.0
#
# Environments stay in $TRL_ENVS (default .trl-envs) and are reused. PIP_ARGS goes to every pip install, for example
# an index with a CPU build of torch. PYTHON chooses the interpreter; PYTEST_ARGS goes to pytest (default: -m "not slow").
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || { echo "usage: $0 TRL_VERSION..." >&2; exit 2; }
envs="${TRL_ENVS:-.trl-envs}"
failed=()

# Everything pinned but TRL itself, which is what varies.
pins="$(mktemp)"
trap 'rm -f "$pins"' EXIT
grep -v '^trl==' constraints.txt > "$pins"

for version in "$@"; do
  env="$envs/trl-$version"
  if [ ! -x "$env/bin/python" ] || ! "$env/bin/python" -c "import trl; assert trl.__version__ == '$version'" 2>/dev/null; then
    "${PYTHON:-python3}" -m venv "$env"
    # shellcheck disable=SC2086
    "$env/bin/pip" install -q ${PIP_ARGS:-} -c "$pins" torch
    # shellcheck disable=SC2086
    "$env/bin/pip" install -q ${PIP_ARGS:-} -c "$pins" "trl==$version" transformers accelerate peft datasets \
      gguf scipy pytest pytest-timeout array-api-compat numpy pyyaml typer
    "$env/bin/pip" install -q ${PIP_ARGS:-} --no-deps -e .
  fi
  echo "== TRL $version: $("$env/bin/pip" list --format=freeze | grep -E '^(torch|transformers)==' | tr '\n' ' ')"
  if ! OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE "$env/bin/python" -m pytest tests/adapters -q -W ignore ${PYTEST_ARGS:--m "not slow"}; then
    failed+=("$version")
  fi
done

[ ${#failed[@]} -eq 0 ] || { echo "failed with TRL: ${failed[*]}" >&2; exit 1; }
echo "passed with TRL: $*"
