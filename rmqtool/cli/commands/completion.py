"""`rmqtool completion`: the script that a shell loads to complete command lines."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from rmqtool.cli.declaration import Argument, Command
from rmqtool.cli.exits import DONE


class Shell(StrEnum):
    """Which shell."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@dataclass(frozen=True)
class Completion(Command):
    """The Tab key then offers commands, options, finding codes, and topics and queues of the store
    on the line. Its first lines say where to put the command that loads it.

    For bash: eval "$(rmqtool completion bash)" in ~/.bashrc. For zsh: eval "$(rmqtool completion
    zsh)" in ~/.zshrc, after compinit. For fish: rmqtool completion fish | source in
    ~/.config/fish/config.fish.
    """

    shell: Annotated[Shell, Argument("SHELL", "bash, zsh or fish.")]

    def run(self) -> int:
        """Print the script."""
        from importlib.resources import files

        from rmqtool.render.sink import standard_output

        script = files("rmqtool.cli.completion").joinpath(f"rmqtool.{self.shell}")
        standard_output().write(script.read_bytes())
        return DONE
