## bash completion of rmqtool; in ~/.bashrc:
##   eval "$(rmqtool completion bash)"
_rmqtool() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        # A name from a store is a word, whatever it looks like.
        printf -v line '%q' "${line%%$'\t'*}"
        COMPREPLY+=("$line")
    done < <(_RMQTOOL_COMPLETE=bash \
        "$1" "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _rmqtool rmqtool
