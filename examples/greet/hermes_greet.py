"""A command of your own: /greet NAME, as loud as you like."""

from hermes_core.commands import Command, Context, Rest, command
from hermes_core.hookspecs import hookimpl


@command("greet", aliases=("hi",))
def greet(context: Context, times: int, name: Rest) -> str:
    """Greet NAME so many TIMES."""
    return " ".join([f"Hello, {name}!"] * min(times, 3))


class GreetPlugin:
    """One command, no settings."""

    @hookimpl
    def hermes_commands(self) -> list[Command]:
        """The commands of this plugin."""
        return [greet]
