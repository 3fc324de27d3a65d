#compdef rmqtool
## zsh completion of rmqtool; in ~/.zshrc, after compinit:
##   eval "$(rmqtool completion zsh)"
_rmqtool() {
    local line
    local -a found shown
    while IFS= read -r line; do
        found+=("${line%%$'\t'*}")
        shown+=("${line%%$'\t'*}  ${line#*$'\t'}")
    done < <(_RMQTOOL_COMPLETE=zsh "$words[1]" "${(@)words[2,CURRENT]}" 2>/dev/null)
    # compadd quotes what it inserts.
    if (( $#found )); then
        compadd -l -d shown -a found
    else
        _files
    fi
}
if [[ "$funcstack[1]" = _rmqtool ]]; then
    _rmqtool "$@"
else
    compdef _rmqtool rmqtool
fi
