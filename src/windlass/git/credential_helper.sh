# The program git asks for a password, where descriptors can be opened anew: see
# credential_helper.py, which says the same in Python. Started as `sh FILE PLACE get`; PLACE
# is the path of the inherited descriptor. Nothing but what the shell does itself is used, so
# no word of it is ever an argument of a program.

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
