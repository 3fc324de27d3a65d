#compdef rmqtool
## zsh completion of rmqtool; in ~/.zshrc, after compinit:
##   eval "$(rmqtool completion zsh)"
_rmqtool() {
    local line
    local -a offers shown
    while IFS= read -r line; do
        offers+=("${line%%$'\t'*}")
        shown+=("${line%%$'\t'*}  ${line#*$'\t'}")
    done < <(_RMQTOOL_COMPLETE=zsh "$words[1]" "${(@)words[2,CURRENT]}" 2>/dev/null)
    # compadd quotes what it inserts.
    if (( $#offers )); then
        compadd -l -d shown -a offers
    else
        _files
    fi
}
if [[ "$funcstack[1]" = _rmqtool ]]; then
    _rmqtool "$@"
else
    compdef _rmqtool rmqtool
fi
