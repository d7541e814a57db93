#!/usr/bin/env bash
# A real S3 server with conditional writes (versitygw on a directory), on 127.0.0.1 only.
#
#   versitygw.sh prepare          build the server into .cache/bin (about four minutes of CPU, once)
#   versitygw.sh start DIR PORT   returns when it answers; objects lie in DIR/data, a bucket is a folder there
#   versitygw.sh stop DIR
#
# Access key testkey, secret testsecret, region us-east-1.
set -euo pipefail

name=versitygw
module=github.com/versity/versitygw/cmd/versitygw
version=${VERSITYGW_VERSION:-v1.8.0}

launch() {
  exec setsid "$server" --port "127.0.0.1:$2" --access testkey --secret testsecret --region us-east-1 \
    --quiet --keep-alive posix "$1"
}

. "$(dirname "${BASH_SOURCE[0]}")/goserver.sh"
