# shellcheck shell=sh
# $1 is the nonce, the rest is the command. Nothing is written to a file system. The exit code and the number of bytes
# of both streams come through a pipe of their own and stand in the end frame of both streams.
n=$1
shift
COLUMNS=1000
LC_ALL=C.UTF-8
HOME=${HOME:-/tmp}
export COLUMNS LC_ALL HOME
case $(dd bs=1 </dev/null 2>&1) in
  *byte*) drupdate_count=bytes ;;
  *) drupdate_count=pipe ;;
esac
# Copies its input to its output and says on file 5 how many bytes there were.
drupdate_pass() {
  if [ "$drupdate_count" = bytes ]; then
    { c=$(LC_ALL=C dd bs=65536 2>&1 >&9); } 9>&1
    c=${c##* out}
    c=${c#"
"}
    c=${c%% *}
  else
    { c=$({ tee /dev/fd/8 >&9; } 8>&1 | wc -c); } 9>&1
  fi
  echo "$1" "$c" >&5
}
exec 3>&1 4>&2 </dev/null
printf '%s start\n' "$n" >&3
printf '%s start\n' "$n" >&4
m=$(
  {
    {
      {
        "$@" 3>&- 4>&- 5>&-
        echo exit "$?" >&5
      } 2>&1 >&6 6>&- | drupdate_pass err >&4 6>&-
    } 6>&1 | drupdate_pass out >&3
  } 5>&1
)
exit_code='' out_bytes='' err_bytes=''
# The words are ours: names and numbers.
# shellcheck disable=SC2086
set -- $m
while [ $# -gt 1 ]; do
  case $1 in
    exit) exit_code=$2 ;;
    out) out_bytes=$2 ;;
    err) err_bytes=$2 ;;
  esac
  shift 2
done
printf '\n%s end %s %s %s\n' "$n" "$exit_code" "$out_bytes" "$err_bytes" >&3
printf '\n%s end %s %s %s\n' "$n" "$exit_code" "$out_bytes" "$err_bytes" >&4
exit 0
