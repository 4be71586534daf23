# Sourced by the scripts beside it, in the project's folder: --help shows the comment at a script's beginning,
# as any other option does that is none.
case ${1:-} in -*)
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "scripts/$(basename "$0")"
  exit $([[ $1 == -h || $1 == --help ]] && echo 0 || echo 64) ;;
esac
