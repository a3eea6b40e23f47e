#!/bin/sh
# shellcheck disable=SC2015,SC2016,SC2020
# SC2015: "a && b || failed" is meant so: failed runs when either fails. SC2016: text for other programs stays as it
# is. SC2020: tr is meant to replace characters.
#
# One operation on one Drupal site: update, restore, install, lift, preflight, backup or rewind. POSIX sh; dash and busybox ash run it.
#
# The positional parameters are the Drush command: its words, --uri= and --root=. Everything else comes from the
# environment. No text of either is ever run as shell code. Every function gets the Drush command as its own
# positional parameters, because a POSIX function cannot see those of the script.
#
# The journal lies beside the backup and outlives this process:
#   NAME.maintenance  the maintenance flag as it was before us; the first write wins
#   NAME.meta         driver, file, bytes, sha256, takenAt, tables of the finished backup; NAME.sha256 for sha256sum -c
#   NAME.started      updatedb was started: it is never started again under this name
#   NAME.opened       the update is proven complete, and the site is about to leave maintenance mode
#   NAME.finished     the update ended well, and its result; NAME.restored: the backup was put back
#   NAME.lifted       the recorded flag was put back after all
#   NAME.source       rewind: the backup that it is putting back; gone once a rewind ended well
LC_ALL=C.UTF-8
COLUMNS=1000
HOME=${HOME:-/tmp}
export LC_ALL COLUMNS HOME

# A name of ours that the site's own environment has too is put aside, and given back to Drush: a variable that came with the
# environment stays exported, with our value.
OWN='RESULT OPERATION DIR NAME POLICY KEEP PROFILE TIMEOUT FORCE CHOSEN HELD CLASS FROM QUESTION GRACE PATIENCE STEP OK TOUCHED
MAINT REC ERROR NOTE B_BYTES B_SHA B_TAKEN B_NAME UPDB_EXIT PENDING DRIVER SKIP_TLS TABLES FLAG_IS_OURS W RC GROUP STOPPED TIMED_OUT
SELF SETSID RUNNER LOCKED FILE PARTIAL SQLITE SOURCE PHP_COPY PHP_CHECK OWN'
DRUPDATE_KEPT=''
for v in $OWN; do
  [ "$v" != OWN ] || continue
  # The names are those above.
  eval "[ -z \"\${$v+set}\" ] || { DRUPDATE_SITE_$v=\${$v}; export DRUPDATE_SITE_$v; unset $v; DRUPDATE_KEPT=\"\$DRUPDATE_KEPT $v\"; }"
done
export DRUPDATE_KEPT

RESULT=${DRUPDATE_RESULT:-/dev/termination-log}
OPERATION=${DRUPDATE_OPERATION-}
DIR=${DRUPDATE_BACKUP_DIR-}
NAME=${DRUPDATE_BACKUP_NAME-}
POLICY=${DRUPDATE_BACKUP_POLICY:-BeforeDatabaseUpdates}
KEEP=${DRUPDATE_KEEP:-3}
PROFILE=${DRUPDATE_PROFILE:-minimal}
TIMEOUT=${DRUPDATE_TIMEOUT:-3600}
FORCE=${DRUPDATE_FORCE:-0}
# The backup that rewind puts back; NAME is then that of its own journal, and of the safety backup.
CHOSEN=${DRUPDATE_SOURCE-}
# 1: an operation that failed left the site in maintenance mode, so that the flag of today is not the site's own.
HELD=${DRUPDATE_HELD:-0}
# Backups are kept by class: empty, or scheduled.
CLASS=${DRUPDATE_CLASS-}
# The backup whose notes meta reads.
FROM=$NAME
# Kubernetes replaces a name in dollar and brackets, and a doubled dollar, in a command: this text holds neither.
#
# How long a short question may take, and how long a killed group may take to end, in seconds.
QUESTION=${DRUPDATE_QUESTION_TIMEOUT:-300}
GRACE=10
# How long an operation that undoes another one waits for it to be gone: longer than a pod's usual grace period, in seconds.
PATIENCE=60

STEP=start-running OK=false TOUCHED=false MAINT=unknown REC='' ERROR='' NOTE=''
B_BYTES=0 B_SHA='' B_TAKEN='' UPDB_EXIT=-1 PENDING=-1
DRIVER='' SKIP_TLS='' TABLES=0 FLAG_IS_OURS=0
W='' RC=0 GROUP='' STOPPED=0 TIMED_OUT=0 killer=''

# ---------------------------------------------------------------- result

# Prints text as the inside of a JSON string of at most about 600 bytes.
json_text() {
  [ -n "$1" ] || return 0
  printf '%s' "$1" | LC_ALL=C tr '\000-\037\177' ' ' | LC_ALL=C cut -b1-600 | LC_ALL=C sed 's/\\/\\\\/g; s/"/\\"/g' | tr -d '\n'
}

# Prints the result on one line.
result_json() {
  printf '{"v":1,"operation":"%s","ok":%s,"step":"%s","touched":%s,"maintenance":"%s","recorded":"%s",' \
    "$OPERATION" "$OK" "$STEP" "$TOUCHED" "$MAINT" "$REC"
  printf '"backup":{"name":"%s","bytes":%s,"sha256":"%s","takenAt":"%s"},' "$B_NAME" "$B_BYTES" "$B_SHA" "$B_TAKEN"
  printf '"updatedbExit":%s,"pendingAfter":%s,"error":"%s","note":"%s"}\n' \
    "$UPDB_EXIT" "$PENDING" "$(json_text "$ERROR")" "$(json_text "$NOTE")"
}

# Writes the result so that a process killed at any moment has told its last step.
tell() { result_json 2>/dev/null >"$RESULT" || :; }

# Begins a step.
step() {
  STEP=$1-running
  tell
  printf 'drupdate: %s\n' "$1"
}

# Ends the script. $1 is the step that the verdict is about.
finish() {
  STEP=$1
  tell
  printf 'drupdate: %s ok=%s %s%s\n' "$STEP" "$OK" "$ERROR" "$NOTE"
  case $W in */*.work) rm -rf "$W" ;; esac
  [ "$OK" = true ] && exit 0
  exit 1
}

# Removes what looks like a secret, and the values of variables whose names say so.
redact() {
  set -- -e 's#\(://[^:/@ ]*\):[^@ ]*@#\1:[redacted]@#g' \
    -e 's/\([Pp][Aa][Ss][Ss][A-Za-z]*\)=[^ ]*/\1=[redacted]/g' -e 's/\(PWD\|pwd\)=[^ ]*/\1=[redacted]/g' "$@"
  for v in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p' | grep -i -e pass -e secret -e token -e pwd | grep -v -x -e PWD -e OLDPWD); do
    # The name is made of letters, digits and underscores.
    eval "value=\${$v-}"
    [ "${#value}" -ge 4 ] || continue
    value=$(printf '%s\n' "$value" | head -n 1 | sed 's/[][\\.*^$#]/\\&/g')
    set -- "$@" -e "s#$value#[redacted]#g"
  done
  sed "$@"
}

# Prints the first real error out of the files given.
first_error() {
  for f in "$@"; do
    [ -s "$f" ] || continue
    line=$(sed 's/^> *//; s/^ *//' "$f" | grep -e '^\[error\]' | grep -v -e 'Update aborted by:' -e 'Finished performing updates' -e 'Update failed:' | head -n 1)
    [ -n "$line" ] || line=$(sed 's/^> *//; s/^ *//' "$f" | grep -e 'Fatal error' -e 'ERROR [0-9]' -e 'ERROR:' -e 'FATAL:' -e 'Got error' \
      -e 'error:' -e 'Error:' -e '^Killed' -e 'memory size' -e 'terminated abnormally' -e 'cannot be found' -e 'not found' | head -n 1)
    [ -n "$line" ] || line=$(sed 's/^> *//; s/^ *//' "$f" | grep -v -e '^$' -e '^In .* line [0-9]*:' -e '^\[success\]' -e '^\[notice\]' | head -n 1)
    [ -n "$line" ] || continue
    printf '%s' "$line" | sed 's/^\[[a-z]*\] *//; s/^Query failed\..*\(ERROR [0-9]\)/\1/; s/ #[0-9][0-9]* .*//; s/ *$//' | redact
    return 0
  done
}

# Keeps the first error of the last command, or the words given where it said nothing.
blame() {
  ERROR=$(first_error "$W/err" "$W/out")
  [ "$TIMED_OUT" = 0 ] || ERROR="no end within the time limit${ERROR:+: $ERROR}"
  [ "$STOPPED" = 0 ] || ERROR="stopped by a signal${ERROR:+: $ERROR}"
  ERROR="$1${ERROR:+: $ERROR}"
}

# ---------------------------------------------------------------- running commands

on_signal() {
  trap '' TERM INT HUP
  STOPPED=1
  [ -n "$GROUP" ] || return 0
  kill_group TERM
  (
    exec 9>&-
    sleep "$GRACE"
    kill_group KILL
  ) >/dev/null 2>&1 </dev/null &
  killer=$!
}

# Sends a signal to the whole group of the running command, orphans included.
kill_group() {
  if [ "$SETSID" = 1 ]; then
    kill -"$1" "-$GROUP" 2>/dev/null
  elif [ "$SELF" = 1 ]; then
    kill -"$1" -1 2>/dev/null # in a container of our own that is every process but us
  else
    kill -"$1" "$GROUP" 2>/dev/null
  fi
}

SELF=${$}
SETSID=0
command -v setsid >/dev/null 2>&1 && SETSID=1

# What runs in the group: stdout to a file, stderr to a file and live to the log, the exit code to a file. It ends
# when the last process that holds the streams has ended, so an orphan is waited for.
RUNNER='w=$1 i=$2; shift 2
for v in $DRUPDATE_KEPT; do eval "$v=\${DRUPDATE_SITE_$v}; export $v"; done
{ "$@" 2>&1 >&3 3>&-; echo "$?" >"$w/rc"; } 3>"$w/out" <"$i" | tee "$w/err" >&2 || : >"$w/lost"'

# run SECONDS STDIN COMMAND... runs a command in a process group of its own. RC is its exit code, 124 when the time
# is over, 143 when we were stopped, 125 when it left no exit code. Its streams are in $W/out and $W/err.
run() {
  limit=$1
  input=$2
  shift 2
  TIMED_OUT=0
  rm -f "$W/late" "$W/lost"
  true >"$W/rc"
  true >"$W/out"
  true >"$W/err"
  RC=143
  [ "$STOPPED" = 0 ] || return 0
  if [ "$SETSID" = 1 ]; then
    setsid sh -c "$RUNNER" runner "$W" "$input" "$@" &
  else
    sh -c "$RUNNER" runner "$W" "$input" "$@" &
  fi
  GROUP=$!
  (
    exec 9>&-
    i=0
    while [ "$i" -lt "$limit" ]; do
      sleep 1
      kill -0 "$SELF" 2>/dev/null || exit 0 # nobody waits any more, and the group's number may belong to others
      i=$((i + 1))
    done
    true >"$W/late"
    kill_group TERM
    i=0
    while [ "$i" -lt "$GRACE" ]; do
      sleep 1
      i=$((i + 1))
    done
    kill_group KILL
  ) >/dev/null 2>&1 </dev/null &
  watchdog=$!
  # A signal that came while there was no group to send it to.
  [ "$STOPPED" = 0 ] || [ -n "$killer" ] || on_signal
  # Only a signal to us ends a wait early, and there is only one: later ones are ignored.
  stopped_before=$STOPPED
  wait "$GROUP"
  [ "$STOPPED" = "$stopped_before" ] || wait "$GROUP"
  # Only this signal can be neither ignored nor lost by a subshell that has just begun.
  # shellcheck disable=SC2086
  kill -KILL "$watchdog" $killer 2>/dev/null
  wait "$watchdog" 2>/dev/null
  [ "$SETSID" = 0 ] || kill_group KILL # nothing of the group may be left behind
  GROUP='' killer=''
  RC=125
  [ ! -s "$W/rc" ] || read -r RC <"$W/rc" || :
  if [ -e "$W/late" ]; then
    RC=124 TIMED_OUT=1
  fi
  [ "$STOPPED" = 0 ] || RC=143
  return 0
}

# Asks Drush a short question.
ask() { run "$QUESTION" /dev/null "$@"; }

# Prints the one line that a question was answered with, without PHP's own noise; nothing when there are more.
answer() {
  sed -e '/^\(PHP \)\{0,1\}\(Deprecated\|Warning\|Notice\): /d' -e '/^[[:space:]]*$/d' "$W/out" |
    sed -n -e '1h' -e '2,$H' -e '${' -e 'g' -e '/\n/!p' -e '}'
}

# Prints the answer when it is a number; headers of psql are left out.
number() {
  sed -e '/^ *count *$/d' -e '/^-*$/d' -e '/^(1 row)$/d' "$W/out" >"$W/number"
  mv "$W/number" "$W/out"
  answer | sed -n 's/^ *\([0-9][0-9]*\) *$/\1/p'
}

sql() {
  q=$1
  shift
  # SKIP_TLS is empty or one option.
  # shellcheck disable=SC2086
  ask "$@" sql:query $SKIP_TLS "$q"
}

# ---------------------------------------------------------------- facts about the site

site_is_healthy() {
  ask "$@" status --fields=bootstrap,db-status --format=json
  [ "$RC" = 0 ] && grep -q '"bootstrap": *"Successful"' "$W/out" && grep -q '"db-status": *"Connected"' "$W/out"
}

# Makes sure that the database answers, with TLS or without, and learns the driver.
database_answers() {
  sql 'SELECT 1' "$@"
  if [ "$RC" != 0 ] && grep -q -e 'TLS/SSL error' -e 'ERROR 2026' "$W/err"; then
    SKIP_TLS=--extra=--skip-ssl
    sql 'SELECT 1' "$@"
  fi
  [ "$RC" = 0 ] && [ "$( number)" = 1 ] || return 1
  ask "$@" status --field=db-driver
  DRIVER=$( answer)
  case $RC:$DRIVER in
    0:mysql | 0:pgsql | 0:sqlite) return 0 ;;
  esac
  printf 'error: the database driver "%s" is not supported\n' "$DRIVER" >"$W/err"
  return 1
}

# Counts the tables into TABLES: of the site's own schema, or with "all" of every schema. Fails without a number.
count_tables() {
  case $1:$DRIVER in
    *:mysql) q='SELECT COUNT(*) FROM information_schema.tables WHERE table_schema=DATABASE()' ;;
    all:pgsql) q="SELECT COUNT(*) FROM pg_catalog.pg_tables WHERE schemaname NOT IN ('pg_catalog','information_schema')" ;;
    *:pgsql) q="SELECT COUNT(*) FROM pg_catalog.pg_tables WHERE schemaname='public'" ;;
    *) q="SELECT COUNT(*) FROM sqlite_master WHERE type='table' AND name NOT LIKE 'sqlite_%'" ;;
  esac
  shift
  sql "$q" "$@"
  TABLES=$( number)
  [ "$RC" = 0 ] && [ -n "$TABLES" ]
}

installation_is_done() {
  sql "SELECT value FROM key_value WHERE collection='state' AND name='install_task'" "$@"
  [ "$RC" = 0 ] || return 1
  case $(answer | tr -d ' ') in
    's:4:"done";' | '\x733a343a22646f6e65223b') return 0 ;;
  esac
  return 1
}

# Reads the maintenance flag into MAINT.
read_flag() {
  ask "$@" maint:get
  MAINT=unknown
  [ "$RC" = 0 ] || return 1
  case $(answer | tr -d ' ') in
    0) MAINT=0 ;;
    1) MAINT=1 ;;
    *) return 1 ;;
  esac
}

# set_flag VALUE DRUSH... sets the maintenance flag and reads it back; two attempts.
set_flag() {
  wanted=$1
  shift
  for attempt in 1 2; do
    ask "$@" maint:set "$wanted"
    if [ "$RC" != 0 ]; then
      cp "$W/err" "$W/set-err"
    elif read_flag "$@" && [ "$MAINT" = "$wanted" ]; then
      return 0
    else
      cp "$W/err" "$W/set-err"
    fi
  done
  : "$attempt"
  mv "$W/set-err" "$W/err"
  return 1
}

# Asks which updates are pending: PENDING is their number, or -1 when that cannot be said.
count_pending() {
  PENDING=-1
  for attempt in 1 2; do
    ask "$@" updatedb:status --format=json
    [ "$RC" = 0 ] || continue
    sed '/^\(PHP \)\{0,1\}\(Deprecated\|Warning\|Notice\): /d' "$W/out" | tr -d ' \t\r\n' >"$W/flat"
    if [ ! -s "$W/flat" ]; then
      if tr '\n' ' ' <"$W/err" | tr -s ' ' | grep -q -e 'No database updates required' -e 'No pending updates'; then
        PENDING=0
        return 0
      fi
      continue
    fi
    case $(head -c 8 "$W/flat") in
      '[]' | '{}' | null) PENDING=0 && return 0 ;;
    esac
    n=$(tr ',{}' '\n\n\n' <"$W/flat" | grep -c -e '^"type":"hook_update_n"$' -e '^"type":"post-update"$')
    other=$(tr ',{}' '\n\n\n' <"$W/flat" | grep '^"type":' | grep -v -c -e hook_update_n -e post-update -e entity-update)
    any=$(tr ',{}' '\n\n\n' <"$W/flat" | grep -c '^"type":')
    if [ "$n" -gt 0 ]; then
      PENDING=$n
      return 0
    fi
    # Only a list that is whole can say that nothing else is in it.
    case $(tail -c 2 "$W/flat") in
      '}}' | '}]') [ "$any" = 0 ] || [ "$other" != 0 ] || { PENDING=0 && return 0; } ;;
    esac
  done
  : "$attempt"
  return 1
}

# Rebuilds the caches; only Drush's own words are proof.
caches_are_rebuilt() {
  ask "$@" cache:rebuild
  [ "$RC" = 0 ] && grep -q -e 'Cache rebuild complete' "$W/err" "$W/out"
}

# Tells whether an enabled module or theme has no code in this image: updatedb goes on without it and says nothing.
# Drupal's other requirements are no business of an update, and an answer that does not come is no proof of anything.
code_is_missing() {
  ask "$@" core:requirements --severity=2 --format=json
  [ "$RC" = 0 ] && grep -q -e '"invalid_module" *:' -e '"invalid_theme" *:' "$W/out"
}

# ---------------------------------------------------------------- journal and guards

# Brings files to the disk: by name, or everything where sync knows no names.
flush() { sync "$@" 2>/dev/null || sync; }

# note_down SUFFIX TEXT writes a journal file whole or not at all.
note_down() {
  printf '%s\n' "$2" >"$DIR/$NAME.$1.tmp" && flush "$DIR/$NAME.$1.tmp" &&
    mv "$DIR/$NAME.$1.tmp" "$DIR/$NAME.$1" && flush "$DIR"
}

has() { [ -e "$DIR/$NAME.$1" ]; }

# flag_is_back BASE tells whether the flag that an operation recorded was put back: its record is history then.
flag_is_back() { [ -e "$1.lifted" ] || [ -e "$1.finished" ]; }

meta() { sed -n "s/^$1=//p" "$DIR/$FROM.meta" 2>/dev/null | head -n 1; }

bad() {
  ERROR=$1
  finish parameters
}

check_parameters() {
  case $OPERATION in
    update | restore | install | lift | preflight | backup | rewind) ;;
    *)
      OPERATION=unknown
      bad 'DRUPDATE_OPERATION is none of update, restore, install, lift, preflight, backup, rewind'
      ;;
  esac
  case $NAME in
    '' | [!A-Za-z0-9]* | *[!A-Za-z0-9._-]*)
      bad 'DRUPDATE_BACKUP_NAME has characters outside A-Z a-z 0-9 . _ -, or does not start with a letter or digit'
      ;;
  esac
  [ "${#NAME}" -le 200 ] || bad 'DRUPDATE_BACKUP_NAME is longer than 200 characters'
  B_NAME=$NAME
  case $OPERATION:$CHOSEN in
    rewind:"$NAME" | rewind: | rewind:[!A-Za-z0-9]* | rewind:*[!A-Za-z0-9._-]*)
      bad 'DRUPDATE_SOURCE is not the name of another backup'
      ;;
  esac
  [ "${#CHOSEN}" -le 200 ] || bad 'DRUPDATE_SOURCE is longer than 200 characters'
  case $HELD:$CLASS in
    [01]: | [01]:scheduled) ;;
    *) bad 'DRUPDATE_HELD is neither 0 nor 1, or DRUPDATE_CLASS neither empty nor scheduled' ;;
  esac
  case $DIR in
    *[!A-Za-z0-9/._-]* | *..* | *//* | / | '') bad 'DRUPDATE_BACKUP_DIR is not a plain absolute path' ;;
    /*) ;;
    *) bad 'DRUPDATE_BACKUP_DIR is not a plain absolute path' ;;
  esac
  case $KEEP$TIMEOUT$QUESTION in
    *[!0-9]*) bad 'DRUPDATE_KEEP or DRUPDATE_TIMEOUT is not a number' ;;
  esac
  [ "${#KEEP}" -le 6 ] && [ "${#TIMEOUT}" -le 8 ] && [ "$TIMEOUT" -gt 0 ] || bad 'DRUPDATE_KEEP or DRUPDATE_TIMEOUT is out of range'
  case $POLICY in
    BeforeDatabaseUpdates | Never) ;;
    *) bad 'DRUPDATE_BACKUP_POLICY is neither BeforeDatabaseUpdates nor Never' ;;
  esac
  case $PROFILE in
    '' | [!a-z]* | *[!a-z0-9_]*) bad 'DRUPDATE_PROFILE is not the name of a profile' ;;
  esac
  [ $# -gt 0 ] || bad 'no Drush command is given'
}

# lock takes the site's lock, which lies on the backup volume and is held until the last process that inherits file 9
# has ended. PHP stands in where the image has no flock. Fails only when somebody else holds it.
lock() {
  LOCKED=1
  exec 9>>"$DIR/.lock"
  if command -v flock >/dev/null 2>&1; then
    flock -n 9
  elif command -v php >/dev/null 2>&1; then
    php -r 'exit(flock(fopen("php://fd/9","a"),LOCK_EX|LOCK_NB)?0:9);' >/dev/null 2>&1
    case $? in
      0) ;;
      9) return 1 ;;
      *) LOCKED=0 ;;
    esac
  else
    LOCKED=0 # the journal alone still keeps updatedb from being started twice
  fi
}

# What undoes or repeats an operation waits for the one before it to be gone: a pod that is being ended outlives its Job.
lock_in_time() {
  waited=0
  until lock; do
    case $OPERATION in
      restore | lift | backup | rewind) ;;
      *) return 1 ;;
    esac
    [ "$STOPPED" = 0 ] && [ "$waited" -lt "$PATIENCE" ] || return 1
    waited=$((waited + 1))
    sleep 1
  done
}

# The backup directory is a mount: it is never made here, or a missing mount would go unnoticed.
prepare() {
  [ -d "$DIR" ] || bad 'the backup directory does not exist'
  { true >>"$DIR/.lock"; } 2>/dev/null || bad 'the backup directory is not writable'
  for tool in tee sed grep cut tail sync mktemp; do
    command -v "$tool" >/dev/null 2>&1 || bad "the image has no \"$tool\""
  done
  if has started && ! has restored; then
    TOUCHED=true
    tell
  fi
  lock_in_time || {
    ERROR='another operation on this site is still running'
    finish busy
  }
  # What a killed script left behind takes up room, and nobody else would clean it up.
  [ "$LOCKED" = 0 ] || rm -rf "$DIR"/.*.work "$DIR"/*.partial "$DIR"/*.tmp
  W=$(mktemp -d "$DIR/.XXXXXX") && mv "$W" "$W.work" || bad 'the backup directory is not writable'
  W=$W.work
  if has maintenance; then
    REC=$(cat "$DIR/$NAME.maintenance")
  fi
  load_backup
}

load_backup() {
  has meta && [ -e "$DIR/$( meta file)" ] || return 0
  B_BYTES=$(meta bytes)
  B_SHA=$(meta sha256 | tr -cd '0-9a-f')
  B_TAKEN=$(meta takenAt | tr -cd '0-9A-Z:-')
  case $B_BYTES in
    '' | *[!0-9]*) B_BYTES=0 ;;
  esac
}

# Ends a failed operation. Where updatedb never started, the database is as it was, and the recorded flag goes back.
fail() {
  at=$1
  shift
  if [ "$FLAG_IS_OURS" = 1 ] && ! has started; then
    kept=$ERROR
    STOPPED=0
    trap '' TERM INT HUP
    if set_flag "$REC" "$@"; then
      note_down lifted "$REC"
    else
      kept="$kept; and the maintenance flag could not be put back"
    fi
    ERROR=$kept
  fi
  finish "$at"
}

# ---------------------------------------------------------------- backup

sha256_of() { sha256sum <"$1" | cut -d ' ' -f 1; }

file_of() {
  case $DRIVER in
    mysql) echo "$NAME.sql" ;;
    pgsql) echo "$NAME.pgdump" ;;
    *) echo "$NAME.sqlite" ;;
  esac
}

# The backup is whole when the file that the journal names has the checksum that the journal names.
backup_is_sound() {
  file=$(meta file)
  case $file in
    "$FROM".sql | "$FROM".pgdump | "$FROM".sqlite) ;;
    *) return 1 ;;
  esac
  named=$(meta sha256 | tr -cd '0-9a-f')
  [ -f "$DIR/$file" ] && [ -n "$named" ] && [ "$(sha256_of "$DIR/$file")" = "$named" ]
}

# Learns the path of the SQLite file into SQLITE.
sqlite_path() {
  ask "$@" status --field=db-name
  SQLITE=$( answer)
  case $RC:$SQLITE in
    0:/*) ;;
    0:?*)
      relative=$SQLITE
      ask "$@" status --field=root
      SQLITE=$( answer)/$relative
      ;;
    *) SQLITE='' ;;
  esac
  case $SQLITE in
    /*) return 0 ;;
  esac
  printf 'error: the path of the SQLite file is not known\n' >"$W/err"
  return 1
}

# A place to write is needed: twice the last backup where there is one, or the size of the SQLite file.
enough_space() {
  last=0
  for m in "$DIR"/*.meta; do
    n=$(sed -n 's/^bytes=\([0-9][0-9]*\)$/\1/p' "$m" 2>/dev/null | head -n 1)
    [ "${n:-0}" -le "$last" ] || last=$n
  done
  [ "$last" -gt 0 ] || return 0
  free=$(df -Pk "$DIR" 2>/dev/null | sed -n '2p' | tr -s ' ' | cut -d ' ' -f 4)
  case $free in
    '' | *[!0-9]*) return 0 ;;
  esac
  [ "$free" -gt $((last / 512)) ] && return 0
  printf 'error: the backup volume has less free space than twice the last backup\n' >"$W/err"
  return 1
}

dump_mysql() {
  # shellcheck disable=SC2086
  run "$TIMEOUT" /dev/null "$@" sql:dump --result-file="$PARTIAL" $SKIP_TLS ${SKIP_TLS:+--extra-dump=--skip-ssl}
  if [ "$RC" != 0 ] && [ -z "$SKIP_TLS" ] && grep -q 'TLS/SSL error' "$W/err"; then
    run "$TIMEOUT" /dev/null "$@" sql:dump --result-file="$PARTIAL" --extra-dump=--skip-ssl
  fi
  [ "$RC" = 0 ] || return 1
  if ! tail -n 5 "$PARTIAL" 2>/dev/null | grep -q -e '^-- Dump completed' || ! grep -q -i -m 1 -e 'CREATE TABLE' "$PARTIAL"; then
    printf 'error: the dump is not complete\n' >"$W/err"
    return 1
  fi
  has_tables "$(grep -a -c -e '^CREATE TABLE ' -e '^CREATE SEQUENCE ' -e '^/\*M\{0,1\}![0-9]* .*VIEW ' "$PARTIAL")"
}

# has_tables NUMBER tells whether the dump has as many tables as the database: a drush.yml can leave some out.
has_tables() {
  [ "$1" -ge "$TABLES" ] && return 0
  printf 'error: the dump has %s tables of %s: drush.yml may leave some out\n' "$1" "$TABLES" >"$W/err"
  return 1
}

dump_pgsql() {
  if ! command -v pg_restore >/dev/null 2>&1; then
    printf 'error: the image has no pg_restore\n' >"$W/err"
    return 1
  fi
  run "$TIMEOUT" /dev/null "$@" sql:dump '--extra-dump=-Fc -n public --no-owner -x' --result-file="$PARTIAL"
  [ "$RC" = 0 ] || return 1
  # The list is read from the head of the archive; only reading all of it shows that it is whole.
  run "$TIMEOUT" /dev/null pg_restore --list "$PARTIAL"
  [ "$RC" = 0 ] || return 1
  has_tables "$(grep -c -e '^[0-9; ]* TABLE public ' "$W/out")" || return 1
  run "$TIMEOUT" /dev/null pg_restore --clean --if-exists --no-owner -x -f /dev/null "$PARTIAL"
  [ "$RC" = 0 ]
}

# Copies one SQLite file by SQLite itself.
PHP_COPY='$a=new SQLite3(getenv("DRUPDATE_FROM"));$a->busyTimeout(60000);$b=new SQLite3(getenv("DRUPDATE_TO"));exit($a->backup($b)?0:1);'
# Drupal's own collation makes the command line's check fail; PHP can lend it one.
PHP_CHECK='$a=new SQLite3(getenv("DRUPDATE_FROM"),SQLITE3_OPEN_READONLY);
$a->createCollation("NOCASE_UTF8",function($x,$y){return strcmp(mb_strtolower($x),mb_strtolower($y));});
exit($a->querySingle("PRAGMA integrity_check")==="ok"?0:1);'

dump_sqlite() {
  sqlite_path "$@" || return 1
  if [ ! -s "$SQLITE" ]; then
    printf 'error: the SQLite file is missing or empty\n' >"$W/err"
    return 1
  fi
  if command -v sqlite3 >/dev/null 2>&1; then
    run "$TIMEOUT" /dev/null sh -c 'cd "$1" && exec sqlite3 "$2" ".backup '\''$3'\''"' copy "$DIR" "$SQLITE" "$NAME.partial"
  else
    run "$TIMEOUT" /dev/null env DRUPDATE_FROM="$SQLITE" DRUPDATE_TO="$PARTIAL" php -r "$PHP_COPY"
  fi
  [ "$RC" = 0 ] && [ -s "$PARTIAL" ] || return 1
  check_sqlite "$PARTIAL"
}

# check_sqlite FILE proves that the file is whole, as well as the image's tools can.
check_sqlite() {
  if command -v sqlite3 >/dev/null 2>&1; then
    run "$TIMEOUT" /dev/null sqlite3 "$1" 'PRAGMA integrity_check'
    [ "$RC" = 0 ] && [ "$( answer)" = ok ] && return 0
    grep -q 'no such collation' "$W/err" "$W/out" || return 1
    if ! command -v php >/dev/null 2>&1; then
      # Without Drupal's collation indexes cannot be compared; reading every row is what is left.
      run "$TIMEOUT" /dev/null sqlite3 "$1" .dump
      [ "$RC" = 0 ] && tail -n 1 "$W/out" | grep -q -x 'COMMIT;'
      return
    fi
  fi
  run "$TIMEOUT" /dev/null env DRUPDATE_FROM="$1" php -r "$PHP_CHECK"
  [ "$RC" = 0 ]
}

take_backup() {
  step backup
  FILE=$( file_of)
  PARTIAL=$DIR/$NAME.partial
  if [ -e "$DIR/$FILE" ]; then
    if backup_is_sound; then
      NOTE='the backup of an earlier attempt is used'
      return 0
    fi
    ERROR='a backup of this name exists and is not sound'
    fail backup "$@"
  fi
  count_tables own "$@" && [ "$TABLES" -gt 0 ] || {
    blame 'the tables could not be counted before the backup'
    fail backup "$@"
  }
  rm -f "$PARTIAL"
  enough_space || {
    blame 'no backup'
    fail backup "$@"
  }
  B_TAKEN=$(date -u +%Y-%m-%dT%H:%M:%SZ)
  "dump_$DRIVER" "$@" || {
    blame 'the backup failed'
    rm -f "$PARTIAL"
    fail backup "$@"
  }
  B_BYTES=$(wc -c <"$PARTIAL" | tr -d ' ')
  [ "$B_BYTES" -ge 256 ] || {
    ERROR="the backup failed: its file has only $B_BYTES bytes"
    fail backup "$@"
  }
  chmod 600 "$PARTIAL"
  B_SHA=''
  ! flush "$PARTIAL" || B_SHA=$(sha256_of "$PARTIAL")
  # The note comes first: a dump without one would be in the way of the next attempt, and nobody would remove it.
  if [ "${#B_SHA}" != 64 ] || ! note_down sha256 "$B_SHA  $FILE" || ! note_down meta "driver=$DRIVER
file=$FILE
bytes=$B_BYTES
sha256=$B_SHA
takenAt=$B_TAKEN
tables=$TABLES
class=$CLASS
sqlite=${SQLITE-}" || ! mv "$PARTIAL" "$DIR/$FILE" || ! flush "$DIR"; then
    rm -f "$PARTIAL" "$DIR/$NAME.sha256" "$DIR/$NAME.meta"
    B_BYTES=0 B_SHA='' B_TAKEN=''
    ERROR='the backup failed: its checksum or its journal could not be written'
    fail backup "$@"
  fi
}

# Tells whether a rewind that has not ended well was putting this backup back.
is_wanted() {
  for s in "$DIR"/*.source; do
    [ -e "$s" ] && [ "$(cat "$s")" = "$1" ] && return 0
  done
  return 1
}

# Keeps the newest backups of our class and removes its others. A backup that a failed update, or a failed rewind, may
# still need is never removed. It counts among the kept ones only when its run has ended.
retain() {
  rm -f "$DIR"/*.partial "$DIR"/*.tmp
  kept=0
  # Our own names hold no blanks; a name that does falls apart into words that are no files.
  # shellcheck disable=SC2012,SC2045
  for m in $(ls -t "$DIR"/*.meta 2>/dev/null); do
    case $m in "$DIR"/*) ;; *) continue ;; esac
    b=${m%.meta}
    [ "$b.meta" = "$m" ] || continue
    if [ ! -e "$DIR/$(sed -n 's/^file=//p' "$m" | head -n 1)" ]; then # killed before the dump got its name
      rm -f "$m" "$b.sha256"
      continue
    fi
    [ "$(sed -n 's/^class=//p' "$m" | head -n 1)" = "$CLASS" ] || continue
    if [ "$b" = "$DIR/$NAME" ]; then
      kept=$((kept + 1))
      continue
    fi
    if [ -e "$b.started" ] && [ ! -e "$b.opened" ] && [ ! -e "$b.finished" ] && [ ! -e "$b.restored" ]; then
      continue
    fi
    if [ -e "$b.maintenance" ] && ! flag_is_back "$b"; then
      continue # the site is still closed by it, and only it knows how the site was
    fi
    ! is_wanted "${b##*/}" || continue
    kept=$((kept + 1))
    [ "$kept" -gt "$KEEP" ] || continue
    for suffix in sql pgdump sqlite sha256 maintenance started opened finished restored lifted meta; do
      rm -f "$b.$suffix"
    done
  done
  return 0
}

# ---------------------------------------------------------------- operations

need_database() {
  database_answers "$@" || {
    blame 'the database cannot be queried'
    fail preflight "$@"
  }
}

# What is looked at before a backup is taken, beside the site or before its update.
can_be_backed_up() {
  step preflight
  site_is_healthy "$@" || {
    blame 'Drupal does not bootstrap'
    fail preflight "$@"
  }
  need_database "$@"
  command -v sha256sum >/dev/null 2>&1 || {
    ERROR='the image has no "sha256sum"'
    fail preflight "$@"
  }
}

update() {
  if has finished; then
    # An earlier run of this very operation ended well and its result was lost.
    cat "$DIR/$NAME.finished" >"$RESULT"
    rm -rf "$W"
    exit 0
  fi
  if has started; then
    ERROR='updatedb was started before and did not end well; it is never started twice'
    finish already-started
  fi
  if has lifted; then
    ERROR='this update was given up before updatedb, and the site was left to its editors'
    finish preflight
  fi
  can_be_backed_up "$@"
  ! code_is_missing "$@" || {
    ERROR='an enabled module or theme has no code in this image'
    fail preflight "$@"
  }

  step maintenance
  read_flag "$@" || {
    blame 'the maintenance flag cannot be read'
    fail maintenance "$@"
  }
  if ! has maintenance; then
    REC=$MAINT
    note_down maintenance "$REC" || {
      ERROR='the journal could not be written'
      fail maintenance "$@"
    }
  fi
  case $REC in
    0 | 1) ;;
    *)
      ERROR='the recorded maintenance flag is neither 0 nor 1'
      fail maintenance "$@"
      ;;
  esac
  FLAG_IS_OURS=1
  set_flag 1 "$@" || {
    blame 'maintenance mode could not be switched on'
    fail maintenance "$@"
  }
  ask "$@" cache:clear bin page # best effort: pages in the cache would still be served
  [ "$STOPPED" = 0 ] || {
    blame 'no update'
    fail maintenance "$@"
  }

  if [ "$POLICY" = Never ]; then
    B_NAME=''
  else
    take_backup "$@"
  fi
  [ "$STOPPED" = 0 ] || {
    blame 'no update'
    fail backup "$@"
  }
  update_database "$@"
}

update_database() {
  TOUCHED=true
  step updatedb
  # Made by one process only, even where there is no lock.
  if ! (set -C && date -u +%Y-%m-%dT%H:%M:%SZ >"$DIR/$NAME.started") 2>/dev/null; then
    ERROR='the journal could not be written, or another script has started updatedb'
    has started || TOUCHED=false
    fail updatedb "$@"
  fi
  # A note that a crash of the node can undo would let another Job begin.
  flush "$DIR/$NAME.started" "$DIR" || {
    ERROR='the journal could not be brought to the disk'
    rm -f "$DIR/$NAME.started"
    has started || TOUCHED=false
    fail updatedb "$@"
  }
  run "$TIMEOUT" /dev/null "$@" updatedb -y
  cat "$W/out"
  UPDB_EXIT=$RC
  late=$TIMED_OUT
  blame 'updatedb failed'
  why=$ERROR
  ERROR=''
  refused=0
  # No exit code, or an output that could not be kept whole, is no success.
  [ "$UPDB_EXIT" != 125 ] && [ ! -e "$W/lost" ] || refused=1
  mv "$W/out" "$W/updatedb-out" && mv "$W/err" "$W/updatedb-err" || refused=1
  if [ "$STOPPED" = 1 ] || [ "$late" = 1 ]; then
    ERROR=$why
    finish updatedb
  fi

  step verify
  grep -q -e 'Update failed:' -e 'Update aborted by:' "$W/updatedb-err" "$W/updatedb-out" && refused=1
  if ! count_pending "$@"; then
    blame 'it cannot be said whether updates are left'
    [ "$UPDB_EXIT" = 0 ] || ERROR="$why; $ERROR"
    finish updatedb-unknown
  fi
  if [ "$PENDING" != 0 ] || [ "$refused" = 1 ]; then
    ERROR=$why
    [ "$UPDB_EXIT" != 0 ] || [ "$refused" = 1 ] || ERROR="updatedb ended with exit code 0 and left $PENDING updates"
    finish updatedb
  fi
  [ "$UPDB_EXIT" = 0 ] || NOTE="exit code $UPDB_EXIT though all updates are applied"

  step cache-rebuild
  caches_are_rebuilt "$@" || [ "$STOPPED" = 1 ] || caches_are_rebuilt "$@" || {
    blame 'the caches could not be rebuilt'
    finish cache-rebuild
  }

  # From here on visitors may write: the backup is history, even if this script dies before the flag is read back.
  note_down opened "$REC" || {
    ERROR='the note that the site opens could not be written to the backup volume'
    finish verify
  }
  step lift
  set_flag "$REC" "$@" || {
    blame 'the recorded maintenance flag could not be put back'
    finish lift
  }
  OK=true STEP='done'
  note_down finished "$( result_json)"
  settle_records
  retain
  finish 'done'
}

lift() {
  if ! has maintenance; then
    has started || note_down lifted none # a pod of the update that comes late must not begin it
    OK=true
    finish nothing-recorded
  fi
  if has started && ! has opened && ! has finished && ! has restored && [ "$FORCE" != 1 ]; then
    ERROR='updatedb was started and its backup was not restored: the site stays in maintenance mode'
    finish not-restored
  fi
  step lift
  set_flag "$REC" "$@" || {
    blame 'the recorded maintenance flag could not be put back'
    finish lift
  }
  note_down lifted "$REC"
  settle_records
  OK=true
  finish 'done'
}

# The site is as it was: what earlier operations recorded of it when they left it closed is history.
settle_records() {
  for m in "$DIR"/*.maintenance; do
    b=${m%.maintenance}
    [ ! -e "$m" ] || flag_is_back "$b" || echo settled >"$b.lifted"
  done
}

restore() {
  if has restored; then
    OK=true
    read_flag "$@"
    finish already-restored
  fi
  if ! has started; then
    NOTE='updatedb never started: there is nothing to restore'
    if has maintenance; then
      step lift
      set_flag "$REC" "$@" || {
        blame 'the recorded maintenance flag could not be put back'
        finish lift
      }
    fi
    note_down lifted "${REC:-none}" # a pod of the update that comes late must not begin it
    OK=true
    finish nothing-to-restore
  fi
  if { has opened || has finished || has lifted; } && [ "$FORCE" != 1 ]; then
    ERROR='the site has left maintenance mode since the backup was taken: restoring would lose what was written'
    finish too-late
  fi
  step preflight
  if ! has meta || ! backup_is_sound; then
    ERROR='there is no sound backup to restore'
    finish backup
  fi
  database_answers "$@" || {
    blame 'the database cannot be queried'
    finish preflight
  }
  [ "$DRIVER" = "$(meta driver)" ] || {
    ERROR='the backup is of another database driver'
    finish backup
  }
  set_flag 1 "$@" || MAINT=unknown # a half-updated site may not even do this

  step restore
  SOURCE=$DIR/$(meta file)
  put_in "$@"
  verify_restore "$@"
}

# Puts the backup SOURCE in, and closes the site again: the flag comes with the backup, or with what got in of it.
put_in() {
  MAINT=unknown
  "restore_$DRIVER" "$@" && well=1 || well=0
  [ "$well" = 1 ] || {
    blame 'the restore failed'
    kept=$ERROR STOPPED=0
    trap '' TERM INT HUP
  }
  set_flag 1 "$@" || MAINT=unknown
  [ "$well" = 1 ] || {
    ERROR=$kept
    finish restore
  }
}

note_restored() {
  note_down restored "$(date -u +%Y-%m-%dT%H:%M:%SZ)" || {
    ERROR='the note that the backup is back could not be written'
    finish verify
  }
}

verify_restore() {
  prove_restored "$@"
  note_restored
  TOUCHED=false OK=true
  finish 'done'
}

# Ends the script unless the restored database is whole, and the site in maintenance mode on it.
prove_restored() {
  step verify
  expected=$(meta tables)
  count_tables own "$@" && [ "$TABLES" -gt 0 ] && [ "$TABLES" -ge "${expected:-1}" ] || {
    blame 'the restored database does not have the tables of the backup'
    finish verify
  }
  installation_is_done "$@" || {
    blame 'the restored database does not say that Drupal is installed'
    finish verify
  }
  site_is_healthy "$@" || {
    blame 'Drupal does not bootstrap on the restored database'
    finish verify
  }
  # The flag came with the backup. Whether the code fits is not known yet, so maintenance mode stays on.
  set_flag 1 "$@" || {
    blame 'maintenance mode could not be switched on'
    finish verify
  }
}

# Drops every table and counts them, because sql:drop succeeds without a database too. The site's pods still run, and
# Drupal makes tables of caches, locks and queues anew as soon as it misses them: so it is tried three times, and what is
# left then is no obstacle where the backup replaces it.
drop_tables() {
  for attempt in 1 2 3; do
    drop_once "$@" || return 1
    [ "$TABLES" != 0 ] || return 0
    sleep "$((attempt - 1))"
  done
  backup_replaces_the_rest "$@" && return 0
  printf 'error: %s tables are left after sql:drop\n' "$TABLES" >"$W/err"
  return 1
}

# Tells whether each table that is left is in the backup, which drops it before it makes it.
backup_replaces_the_rest() {
  case $DRIVER in
    mysql)
      sql 'SELECT table_name FROM information_schema.tables WHERE table_schema=DATABASE()' "$@"
      grep -a -o '^DROP TABLE IF EXISTS `[^`]*`' "$SOURCE" | sed 's/^[^`]*`//; s/`$//' >"$W/in-backup"
      ;;
    pgsql)
      sql "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname='public'" "$@"
      sed -n 's/^[0-9; ]* TABLE public \([^ ]*\) .*/\1/p' "$W/list" >"$W/in-backup"
      ;;
    *) return 1 ;;
  esac
  [ "$RC" = 0 ] && [ -s "$W/in-backup" ] || return 1
  sed -e 's/^ *//; s/ *$//' -e '/^[Tt][Aa][Bb][Ll][Ee]_\{0,1\}[Nn][Aa][Mm][Ee]$/d' -e '/^-*$/d' -e '/^([0-9]* rows\{0,1\})$/d' "$W/out" >"$W/left"
  [ "$(wc -l <"$W/left" | tr -d ' ')" = "$TABLES" ] && ! grep -v -x -F -q -f "$W/in-backup" "$W/left"
}

# Drops what is there, and counts into TABLES what is there afterwards.
drop_once() {
  if [ -z "$SKIP_TLS" ]; then
    run "$TIMEOUT" /dev/null "$@" sql:drop -y
  else
    # sql:drop cannot be told to go without TLS, so the database itself writes the statements.
    sql "SELECT CONCAT('DROP ', IF(table_type='VIEW','VIEW','TABLE'), ' IF EXISTS \`', REPLACE(table_name,'\`','\`\`'), '\`;') FROM information_schema.tables WHERE table_schema=DATABASE()" "$@"
    [ "$RC" = 0 ] || return 1
    {
      echo 'SET FOREIGN_KEY_CHECKS=0;'
      grep -e '^DROP ' "$W/out"
    } >"$W/drop.sql"
    run "$TIMEOUT" /dev/null "$@" sql:query "$SKIP_TLS" --file="$W/drop.sql"
  fi
  [ "$RC" = 0 ] && count_tables own "$@"
}

restore_mysql() {
  # Drush may consume the file that it is given, so it gets a copy, or for want of room another name of it.
  cp "$SOURCE" "$W/restore.sql" 2>/dev/null || { rm -f "$W/restore.sql" && ln "$SOURCE" "$W/restore.sql"; } || {
    printf 'error: the backup could not be copied\n' >"$W/err"
    return 1
  }
  drop_tables "$@" || return 1
  # shellcheck disable=SC2086
  run "$TIMEOUT" /dev/null "$@" sql:query $SKIP_TLS --file="$W/restore.sql"
  [ "$RC" = 0 ] && ! grep -q -e 'ERROR [0-9]' "$W/err"
}

restore_pgsql() {
  # The schema itself and extensions stay: they belong to the database's owner.
  run "$TIMEOUT" /dev/null pg_restore --list "$SOURCE"
  [ "$RC" = 0 ] || return 1
  grep -v -e ' SCHEMA - ' -e ' COMMENT - SCHEMA ' -e ' ACL - SCHEMA ' -e ' EXTENSION ' "$W/out" >"$W/list" || {
    printf 'error: the list of what to restore could not be written\n' >"$W/err"
    return 1
  }
  run "$TIMEOUT" /dev/null pg_restore --clean --if-exists --no-owner -x -L "$W/list" -f "$W/archive.sql" "$SOURCE"
  [ "$RC" = 0 ] && [ -s "$W/archive.sql" ] || return 1
  # Half of it, committed, would look like all of it.
  { printf '\\set ON_ERROR_STOP on\nBEGIN;\n' && cat "$W/archive.sql" && printf '\nCOMMIT;\n'; } >"$W/restore.sql" || {
    printf 'error: what is to be restored could not be written\n' >"$W/err"
    return 1
  }
  drop_tables "$@" || return 1
  run "$TIMEOUT" "$W/restore.sql" "$@" sql:cli
  [ "$RC" = 0 ] && ! grep -q -e 'ERROR:' -e 'FATAL:' "$W/err"
}

restore_sqlite() {
  sqlite_path "$@" || return 1
  if [ "$SQLITE" != "$(meta sqlite)" ]; then
    printf 'error: the backup is of another SQLite file\n' >"$W/err"
    return 1
  fi
  # The copy takes over owner and mode of the file that it replaces.
  if [ -e "$SQLITE" ]; then
    cp -p "$SQLITE" "$SQLITE.partial"
  fi 2>"$W/err" || return 1
  cat "$SOURCE" 2>"$W/err" >"$SQLITE.partial" || return 1
  check_sqlite "$SQLITE.partial" || return 1
  flush "$SQLITE.partial" || return 1
  rm -f "$SQLITE-wal" "$SQLITE-shm" "$SQLITE-journal"
  mv "$SQLITE.partial" "$SQLITE" 2>"$W/err" || return 1
  flush "${SQLITE%/*}"
}

# A backup beside the running site. The dump is one consistent look at the database, so the site stays open.
backup() {
  can_be_backed_up "$@"
  take_backup "$@"
  retain
  OK=true
  finish 'done'
}

# Closes the site before its database is replaced, and records the flag that it is to have afterwards. A database that
# cannot tell its flag is not asked to keep one either: it may be what the backup is wanted for.
close_site() {
  step maintenance
  told=1
  read_flag "$@" || told=0
  if ! has maintenance; then
    REC=0
    [ "$told" = 0 ] || REC=$MAINT
    if [ "$HELD" = 1 ]; then
      # Our own names hold no blanks, and the newest record is that of the operation that left the site closed.
      # shellcheck disable=SC2012
      last=$(ls -t "$DIR"/*.maintenance 2>/dev/null | while read -r m; do
        flag_is_back "${m%.maintenance}" || { echo "$m" && break; }
      done)
      REC=0
      [ -z "$last" ] || REC=$(cat "$last")
    fi
    note_down maintenance "$REC" || {
      ERROR='the journal could not be written'
      fail maintenance "$@"
    }
  fi
  case $REC in
    0 | 1) ;;
    *)
      ERROR='the recorded maintenance flag is neither 0 nor 1'
      fail maintenance "$@"
      ;;
  esac
  # What a failed operation left on stays on when this one fails as well.
  [ "$HELD" = 1 ] || [ "$told" = 0 ] || FLAG_IS_OURS=1
  if ! set_flag 1 "$@"; then
    [ "$told" = 0 ] || {
      blame 'maintenance mode could not be switched on'
      fail maintenance "$@"
    }
    MAINT=unknown
    return 0
  fi
  ask "$@" cache:clear bin page # best effort: pages in the cache would still be served
}

# Puts a backup back that a person chose. Beginning again begins with that backup, and takes no second safety backup: what
# a first attempt left is not worth one.
rewind() {
  if has restored; then
    OK=true
    read_flag "$@"
    finish already-restored
  fi
  step preflight
  need_database "$@"
  FROM=$CHOSEN
  backup_is_sound || {
    ERROR='there is no sound backup of that name'
    fail preflight "$@"
  }
  [ "$DRIVER" = "$(meta driver)" ] || {
    ERROR='the backup is of another database driver'
    fail preflight "$@"
  }
  FROM=$NAME
  if has lifted && ! has started; then
    # An earlier attempt gave up and opened the site: its safety backup and its record are old.
    for suffix in sql pgdump sqlite sha256 meta maintenance lifted; do
      rm -f "$DIR/$NAME.$suffix"
    done
    REC='' B_BYTES=0 B_SHA='' B_TAKEN=''
  fi
  close_site "$@"
  if [ "$POLICY" = Never ]; then
    B_NAME=''
  elif ! has started; then
    take_backup "$@"
  fi
  [ "$STOPPED" = 0 ] || {
    blame 'no restore'
    fail backup "$@"
  }
  put_back "$@"
}

put_back() {
  step restore
  note_down source "$CHOSEN" && note_down started "$(date -u +%Y-%m-%dT%H:%M:%SZ)" || {
    ERROR='the journal could not be written'
    has started || rm -f "$DIR/$NAME.source"
    fail restore "$@"
  }
  TOUCHED=true
  FROM=$CHOSEN
  SOURCE=$DIR/$(meta file)
  put_in "$@"
  prove_restored "$@"
  # What failed before this rewind is settled by it, and its safety backup is one like others.
  for s in "$DIR"/*.source; do
    [ -e "$s" ] || continue
    date -u +%Y-%m-%dT%H:%M:%SZ >"${s%.source}.restored"
    rm -f "$s"
  done
  note_restored
  OK=true
  finish 'done'
}

# Prints the names of the updates that count_pending has seen, ten at most.
pending_names() {
  tr ',{}' '\n\n\n' <"$W/flat" | sed -n 's/^"\([A-Za-z0-9_]*\)":$/\1/p' | head -n 10 | tr '\n' ' ' | sed 's/ $//; s/ /, /g'
}

# Asks, and nothing else: the site serves from other code meanwhile, and none of its state is this code's to change.
preflight() {
  step preflight
  site_is_healthy "$@" || {
    blame 'Drupal does not bootstrap'
    finish preflight
  }
  ! code_is_missing "$@" || {
    ERROR='an enabled module or theme has no code in this image'
    finish preflight
  }
  step pending
  count_pending "$@" || {
    blame 'it cannot be said which updates are pending'
    finish pending
  }
  [ "$PENDING" = 0 ] || NOTE=$( pending_names)
  OK=true
  finish 'done'
}

install() {
  step preflight
  for f in "$DIR"/*.meta "$DIR"/*.started "$DIR"/*.installed; do
    [ -e "$f" ] || continue
    ERROR='this site was installed before: an empty database would be a lost one'
    finish not-empty
  done
  database_answers "$@" || {
    blame 'the database cannot be queried'
    finish preflight
  }
  count_tables all "$@" || {
    blame 'the tables cannot be counted'
    finish preflight
  }
  [ "$TABLES" = 0 ] || {
    ERROR="the database holds $TABLES tables"
    finish not-empty
  }
  TOUCHED=true
  step install
  password=$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
  [ "${#password}" = 48 ] || {
    TOUCHED=false ERROR='no random password could be made'
    finish preflight
  }
  run "$TIMEOUT" /dev/null "$@" site:install "$PROFILE" -y --account-name=admin --account-pass="$password"
  [ "$RC" = 0 ] || {
    blame 'the installation failed'
    finish install
  }
  step verify
  installation_is_done "$@" && site_is_healthy "$@" || {
    blame 'Drupal does not say that its installation is done'
    finish verify
  }
  read_flag "$@"
  note_down installed "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
  OK=true
  finish 'done'
}

B_NAME=''
trap on_signal TERM INT HUP
check_parameters "$@"
tell
prepare "$@"
"$OPERATION" "$@"
