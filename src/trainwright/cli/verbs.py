"""The table of verbs: name, where its function is, one line of help. One line here makes a new verb."""

from __future__ import annotations

from typing import NamedTuple


class Verb(NamedTuple):
    """``function`` is ``module:name``; a hidden verb is what launchers start on each node."""

    function: str
    summary: str
    hidden: bool = False


class Group(NamedTuple):
    """Several verbs under one word."""

    summary: str
    verbs: dict[str, Verb]


VERBS: dict[str, Verb] = {
    "run": Verb("trainwright.cli.run:run", "Plan, render, submit and follow a run."),
    "plan": Verb("trainwright.cli.plan:plan", "Say which layout runs, whether it fits, how long, how much, and why."),
    "render": Verb("trainwright.cli.render:render", "Write the files of the scheduler, and stop."),
    "submit": Verb("trainwright.cli.submit:submit", "Start what was rendered; do not wait."),
    "ls": Verb("trainwright.cli.ls:ls", "List runs."),
    "status": Verb("trainwright.cli.status:status", "Say where a run stands, and why it waits or failed."),
    "events": Verb("trainwright.cli.events:events", "List what happened to a run."),
    "logs": Verb("trainwright.cli.logs:logs", "Show the logs of all ranks or of one."),
    "cancel": Verb("trainwright.cli.cancel:cancel", "Stop a run; its state is saved first."),
    "resume": Verb("trainwright.cli.resume:resume", "Go on with a run from its newest good checkpoint."),
    "evaluate": Verb("trainwright.cli.evaluate:evaluate", "Measure a run's model on held-out data and tasks."),
    "sample": Verb("trainwright.cli.sample:sample", "Let a run's model complete a prompt."),
    "export": Verb("trainwright.cli.export:export", "Write a run's model in Hugging Face format."),
    "register": Verb("trainwright.cli.register:register", "Put a run's model into the registry."),
    "report": Verb("trainwright.cli.report:report", "Write the HTML report of one run, or of several side by side."),
    "lint": Verb(
        "trainwright.cli.lint:lint", "Find what will hang, crash or waste in manifests, scripts and configs."
    ),
    "rule": Verb("trainwright.cli.rule:rule", "Explain a lint rule."),
    "doctor": Verb("trainwright.cli.doctor:doctor", "Say what a cluster has and lacks for a run, with the fixes."),
    "image": Verb("trainwright.cli.image:image", "Write the Dockerfile that a run's pods need."),
    "init": Verb("trainwright.cli.init:init", "Write a commented spec to start from."),
    "schema": Verb("trainwright.cli.schema:schema", "Print the JSON Schema of the spec or the site file."),
    "prepare": Verb(
        "trainwright.cli.prepare:prepare", "Tokenise and pack a run's data (a launcher starts this).", True
    ),
    "train": Verb("trainwright.cli.train:train", "Train on this node (a launcher starts this).", True),
    "finish": Verb("trainwright.cli.finish:finish", "Evaluate, export and register (a launcher starts this).", True),
}

GROUPS: dict[str, Group] = {
    "checkpoint": Group(
        "List, verify, prune and import checkpoints.",
        {
            "ls": Verb("trainwright.cli.checkpoint:ls", "List checkpoints."),
            "verify": Verb("trainwright.cli.checkpoint:verify", "Check every byte of a checkpoint."),
            "prune": Verb("trainwright.cli.checkpoint:prune", "Delete old checkpoints; never the newest good one."),
            "import": Verb("trainwright.cli.checkpoint:import_", "Make a checkpoint of DeepSpeed's one of a run."),
        },
    ),
}
