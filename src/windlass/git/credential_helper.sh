# Credential helper of git: answers with user and password from the file PLACE. Started as
# `sh FILE PLACE get`; `store` and `erase` do nothing. PLACE has blocks of `key=value` lines,
# one block per host. A block is printed only if protocol and host, port included, are exactly
# those of git's request, so a server that redirects git elsewhere learns nothing. Nothing but
# what the shell does itself is used, so no word of it is ever an argument of a program.

[ "$2" = get ] || exit 0

protocol='' host='' username='' names_user=''
while IFS= read -r line; do
    case $line in
        protocol=*) protocol=${line#*=} ;;
        host=*) host=${line#*=} ;;
        username=*) username=${line#*=} names_user=yes ;;
    esac
done
[ -n "$host" ] || exit 0

place_protocol='' place_host='' place_username=''
while IFS= read -r line; do
    case $line in
        protocol=*) place_protocol=${line#*=} ;;
        host=*) place_host=${line#*=} ;;
        username=*) place_username=${line#*=} ;;
        password=*)
            if [ "$place_protocol" = "$protocol" ] && [ "$place_host" = "$host" ] &&
                { [ -z "$names_user" ] || [ "$place_username" = "$username" ]; }; then
                printf 'username=%s\n%s\n' "$place_username" "$line"
                exit 0
            fi
            ;;
    esac
done < "$1"
