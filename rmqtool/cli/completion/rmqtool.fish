## fish completion of rmqtool; in ~/.config/fish/config.fish:
##   rmqtool completion fish | source
function __rmqtool_complete
    set -l words (commandline -opc)
    env _RMQTOOL_COMPLETE=fish $words[1] $words[2..-1] (commandline -ct) 2>/dev/null
end
complete --command rmqtool --arguments '(__rmqtool_complete)'
