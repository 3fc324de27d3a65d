"""The command line. A command is options, one library call, emit, exit code; nothing else."""
