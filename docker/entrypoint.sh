#!/bin/sh
# Gives libpq the database password of a secret file, so that it is in no URL, no image and no
# setting that `docker inspect` shows. Then the command takes this process's place.
set -eu

if [ -n "${PGPASSWORD_FILE:-}" ]; then
  if [ ! -r "$PGPASSWORD_FILE" ]; then
    echo "error: PGPASSWORD_FILE: $PGPASSWORD_FILE can't be read by user $(id -u)" >&2
    exit 3
  fi
  PGPASSWORD="$(cat "$PGPASSWORD_FILE")"
  export PGPASSWORD
fi

exec "$@"
