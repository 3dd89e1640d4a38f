"""``lancens completion``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    Examples:
      eval "$(lancens completion bash)"                      # in ~/.bashrc
      eval "$(lancens completion zsh)"                       # in ~/.zshrc
      lancens completion fish > ~/.config/fish/completions/lancens.fish
    """
    completion = get_completion_class(shell)
    assert completion is not None  # noqa: S101 - click knows each of the choices
    click.echo(completion(context.find_root().command, {}, "lancens", "_LANCENS_COMPLETE").source())
