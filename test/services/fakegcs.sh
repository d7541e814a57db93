#!/usr/bin/env bash
# A server of the Google Cloud Storage protocol in memory (fake-gcs-server), on 127.0.0.1 only.
#
#   fakegcs.sh prepare          build the server into .cache/bin
#   fakegcs.sh start DIR PORT   returns when it answers; it has one bucket, lake, and asks for no credentials
#   fakegcs.sh stop DIR
set -euo pipefail

name=fake-gcs-server
module=github.com/fsouza/fake-gcs-server
version=${FAKE_GCS_VERSION:-v1.56.1}

launch() { # what lies in the data folder is loaded at the start: the bucket
  mkdir -p "$1/lake"
  touch "$1/lake/.keep"
  exec setsid "$server" -scheme http -host 127.0.0.1 -port "$2" -backend memory -data "$1" \
    -public-host "127.0.0.1:$2" -external-url "http://127.0.0.1:$2" -log-level error
}

. "$(dirname "${BASH_SOURCE[0]}")/goserver.sh"
