"""``trainwright sample``: let a run's model write."""

from __future__ import annotations

from typing import Annotated

import typer

from trainwright.cli.output import Output, OutputOption, RunsOption, emit


def sample(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run id, its beginning, or its folder.")],
    prompts: Annotated[list[str], typer.Argument(metavar="PROMPT…", help="Texts to go on with.")],
    tokens: Annotated[int, typer.Option("--tokens", min=1, help="Length of each answer in tokens.")] = 64,
    temperature: Annotated[
        float, typer.Option("--temperature", min=0.0, help="0 takes the likeliest token each time.")
    ] = 0.0,
    seed: Annotated[int, typer.Option("--seed", help="With a temperature: the same seed, the same answer.")] = 0,
    chat: Annotated[bool, typer.Option("--chat", help="Put each prompt as a user's turn.")] = False,
    runs: RunsOption = None,
    output: OutputOption = Output.text,
) -> None:
    """Complete prompts with a run's model; it is exported first if it has not been."""
    from trainwright.cli.working import working
    from trainwright.registry.finish import write_samples
    from trainwright.runs.folder import find

    with working("loading the model") as progress:
        made = write_samples(find(run, runs), prompts, tokens, temperature, seed, chat, progress)
    emit([item.to_dict() for item in made], "\n\n".join(item.prompt + item.text for item in made), output)
