#!/usr/bin/env bash
# Makes the Python environment of the foreign readers and clients: venv.sh [spark|dynamo|formats|clients]
# clients are Kafka clients beside librdkafka. formats writes Avro, Protobuf and CloudEvents. dynamo is the last delta-rs that coordinates commits by DynamoDB, for the tests of that lock table.
# Its path goes to standard output. A finished environment is kept for as long as this file is the same.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$(realpath -m "${LEDGERLAKE_CACHE:-$here/../../.cache}")

readers=(deltalake==1.6.6 pyarrow==26.0.1 duckdb==1.5.5 duckdb-extension-delta==1.5.5 duckdb-extension-httpfs==1.5.5
         pytz==2026.6 polars==2.1.0 pandas==3.1.1 confluent-kafka==2.16.1)
spark=(pyspark==4.2.0 delta-spark==4.4.0)
dynamo=(deltalake==0.25.5 pyarrow==26.0.1)
formats=(fastavro==1.13.1 cloudevents==2.2.0 protobuf==7.36.2 googleapis-common-protos==1.76.0 'confluent-kafka[avro,protobuf]==2.16.1')
clients=(aiokafka==0.14.0 kafka-python==3.0.12)

case ${1:-} in
  '') dir=$cache/venv; packages=("${readers[@]}") ;;
  spark) dir=$cache/venv-spark; packages=("${spark[@]}") ;;
  dynamo) dir=$cache/venv-dynamo; packages=("${dynamo[@]}") ;;
  formats) dir=$cache/venv-formats; packages=("${formats[@]}") ;;
  clients) dir=$cache/venv-clients; packages=("${clients[@]}") ;;
  *) echo "venv.sh: usage: venv.sh [spark|dynamo|formats|clients]" >&2; exit 2 ;;
esac

command -v python3 >/dev/null || { echo "venv.sh: python3 is not installed" >&2; exit 1; }
want=${packages[*]}
if [ "$(cat "$dir/installed" 2>/dev/null || true)" != "$want" ]; then
  mkdir -p "$cache"
  (
    flock 9
    [ "$(cat "$dir/installed" 2>/dev/null || true)" != "$want" ] || exit 0
    [ -x "$dir/bin/python" ] || python3 -m venv "$dir" >&2
    "$dir/bin/python" -m pip install -q --disable-pip-version-check "${packages[@]}" >&2
    printf '%s' "$want" >"$dir/installed"
  ) 9>"$cache/venv.lock"
fi
echo "$dir"
