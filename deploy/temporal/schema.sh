#!/bin/sh
# Creates Temporal's two databases, and brings their schemas up to date. Running it again changes nothing.
# SQL_HOST, SQL_PORT, SQL_USER, SQL_PASSWORD and SQL_PLUGIN come from the environment.
set -eu

bring_up() { # DATABASE SCHEMA
  temporal-sql-tool --database "$1" create-database
  temporal-sql-tool --database "$1" setup-schema --version 0.0
  temporal-sql-tool --database "$1" update-schema --schema-name "$2"
}

bring_up temporal postgresql/v12/temporal
bring_up temporal_visibility postgresql/v12/visibility
