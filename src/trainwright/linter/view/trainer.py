"""What a training program is told, wherever it is written: options of the command, the YAML file it names, DeepSpeed.

Takes launches and ``training`` documents; gives one TrainerArguments per run, whose values look alike whatever the
notation. It must not know what would be right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from trainwright.linter.documents import ConfigDocument, Document, PythonDocument
from trainwright.linter.node import Node
from trainwright.linter.project import Project
from trainwright.linter.shell.chain import launches
from trainwright.linter.shell.flags import Flags
from trainwright.linter.shell.walk import walk_script
from trainwright.linter.text import Text
from trainwright.linter.values import Absent, Known, Unknown, Value
from trainwright.linter.view.job import JobLaunch, TrainingJob
from trainwright.linter.view.python import imports_module

_DEEPSPEED = ("deepspeed_config", "deepspeed", "ds_config", "deepspeed_config_file")
_YAML = ("config", "config_file", "cfg", "args_file")
_MODEL = ("model_name_or_path", "model_name", "model_id", "model", "base_model", "pretrained_model_name_or_path")
HUGGING_FACE = frozenset({
    "per_device_train_batch_size", "per_device_eval_batch_size", "save_strategy", "eval_strategy",
    "evaluation_strategy", "save_total_limit", "lr_scheduler_type", "report_to", "logging_steps", "num_train_epochs",
    "overwrite_output_dir", "gradient_checkpointing", "ddp_find_unused_parameters", "ddp_timeout", "warmup_ratio",
    "save_only_model", "bf16_full_eval", "dataloader_num_workers", "load_best_model_at_end", "save_steps",
})  # fmt: skip
"""Options of ``transformers.TrainingArguments`` that tell it from other trainers."""


@dataclass(eq=False)
class TrainerArguments:
    """One training run. ``flags`` are its options, ``file`` the YAML file with the rest (either may be empty);
    ``launch`` is None for a file that no command in sight names."""

    document: Document
    flags: Flags
    launch: JobLaunch | None = None
    file: ConfigDocument | None = None
    deepspeed: Node | None = None
    deepspeed_file: ConfigDocument | None = None
    module: PythonDocument | None = None
    nearby: ConfigDocument | None = None
    """The only DeepSpeed file in sight, when the one that the run names is not (a guide's snippets have no names), or
    beside a file of arguments that names none."""

    # -- values ------------------------------------------------------------------------------------------------------

    def node(self, *names: str) -> Node | None:
        """The node of the YAML file that states one of these, unless an option overrides it."""
        if self.file is None or self.flags.has(*names):
            return None
        return next((node for name in names if (node := self.file.get(name)).exists), None)

    def text(self, *names: str) -> Value[str]:
        """A value as text; Absent when neither the command nor the file states it."""
        node = self.node(*names)
        return self.flags.text(*names) if node is None else node.as_string()

    def number(self, *names: str) -> Value[int]:
        """A value as an integer."""
        node = self.node(*names)
        return self.flags.number(*names) if node is None else node.as_integer()

    def decimal(self, *names: str) -> Value[float]:
        """A value as a float."""
        found = self.text(*names)
        if not isinstance(found, Known):
            return found
        try:
            return Known(float(found.value), found.span)
        except ValueError:
            return Unknown(found.span, found.value)

    def switch(self, *names: str) -> Value[bool]:
        """A value as a boolean."""
        node = self.node(*names)
        if node is None:
            return self.flags.switch(*names)
        if node.boolean is None:
            return Unknown(node.span)
        return Known(node.boolean, node.span)

    def states(self, *names: str) -> bool:
        """Whether the command or the file states one of these."""
        return not isinstance(self.text(*names), Absent)

    # -- what kind of run it is --------------------------------------------------------------------------------------

    @cached_property
    def is_hugging_face(self) -> bool:
        """Whether it speaks the language of the Hugging Face Trainer."""
        keys = set(self.flags.used) | set(self.file.node.keys() if self.file else ())
        return len(keys & HUGGING_FACE) >= 1 or self.imports("transformers", "trl", "accelerate", "lightning")

    def imports(self, *modules: str) -> bool:
        """Whether its program, if it is in sight, imports one of these."""
        return self.module is not None and any(imports_module(self.module, name) for name in modules)

    @property
    def accelerate(self) -> ConfigDocument | None:
        """The Accelerate file that starts it."""
        return self.launch.config if self.launch is not None else None

    @property
    def processes(self) -> int | None:
        """How many processes train together, when that is certain."""
        return self.launch.world_size.known if self.launch is not None else None

    @property
    def distributed(self) -> bool:
        """Whether several processes certainly train together."""
        return (self.processes or 1) > 1

    @property
    def model(self) -> Known[str] | None:
        """The model it is told to train, by name."""
        found = self.text(*_MODEL)
        return found if isinstance(found, Known) and found.value.strip() else None

    @property
    def zero_stage(self) -> Known[int] | None:
        """DeepSpeed's ZeRO stage: of its file, of the Accelerate file, or of ``--zero-stage``."""
        stated: list[Value[int]] = []
        if self.deepspeed is not None:
            stated.append(self.deepspeed.get("zero_optimization", "stage").as_integer())
        if self.accelerate is not None:
            stated.append(self.accelerate.get("deepspeed_config", "zero_stage").as_integer())
        if self.flags.has("deepspeed", "deepspeed_config"):
            stated.append(self.flags.number("zero_stage"))
        return next((value for value in stated if isinstance(value, Known)), None)

    @cached_property
    def bf16(self) -> Known[bool] | None:
        """Where training in bf16 is asked for: the trainer's option, Accelerate's or DeepSpeed's file."""
        return self._precision("bf16", ("bf16", "bfloat16", "bf16-mixed", "bf16-true"))

    @cached_property
    def fp16(self) -> Known[bool] | None:
        """Where training in fp16 is asked for."""
        return self._precision("fp16", ("fp16", "float16", "16-mixed", "fp16-mixed"))

    @cached_property
    def fp8(self) -> Known[bool] | None:
        """Where training in fp8 is asked for."""
        return self._precision("fp8", ("fp8", "float8"))

    def _precision(self, own: str, names: tuple[str, ...]) -> Known[bool] | None:
        switch = self.switch(own)
        if isinstance(switch, Known):
            return switch if switch.value else None
        text = self.text(own)
        if own == "fp8" and isinstance(text, Known) and text.value in ("hybrid", "e4m3"):
            return Known(True, text.span)
        stated = [self.text("mixed_precision", "precision", "trainer.precision")]
        if self.launch is not None and self.launch.tool == "accelerate":
            stated.append(self.launch.setting("mixed_precision"))
        for value in stated:
            if isinstance(value, Known):
                return Known(True, value.span) if value.value.lower() in names else None
        if self.deepspeed is not None:
            enabled = self.deepspeed.get(own, "enabled")
            if enabled.boolean:
                return Known(True, enabled.span)
        return None


@lru_cache(maxsize=2)
def trainer_runs(project: Project) -> tuple[TrainerArguments, ...]:
    """Every training run: one per launch, and one per file of trainer arguments that no launch names."""
    return tuple(_trainer_runs(project))


def _trainer_runs(project: Project) -> Iterator[TrainerArguments]:
    named: set[int] = set()
    for job in project.jobs:
        for launch in job.training_launches:
            run = of_launch(launch, project)
            if run.file is not None:
                named.add(id(run.file))
            yield run
    for document in project.configs("training"):
        if id(document) not in named:
            yield _of_file(document, project)
    for document in project.configs("accelerate"):
        yield from _in_comments(document)


def of_launch(launch: JobLaunch, project: Project) -> TrainerArguments:
    """What one launch tells its program."""
    near, flags = launch.job.document, launch.arguments
    names = [flags.text(name).known for name in _YAML]
    names += [o.known for o in launch.program.operands if (o.known or "").endswith((".yaml", ".yml"))]
    files = [project.file(name, near) for name in names if name]
    file = next((f for f in files if isinstance(f, ConfigDocument) and f.role == "training"), None)
    module = project.file(launch.launch.script, near) if launch.launch.script.endswith(".py") else None
    run = TrainerArguments(near, flags, launch, file, module=module if isinstance(module, PythonDocument) else None)
    _add_deepspeed(run, project)
    return run


def _of_file(document: ConfigDocument, project: Project) -> TrainerArguments:
    run = TrainerArguments(document, Flags(place=document.top), file=document)
    _add_deepspeed(run, project)
    return run


def _add_deepspeed(run: TrainerArguments, project: Project) -> None:
    if run.file is not None and run.file.get("deepspeed").type == "mapping":
        run.deepspeed, run.deepspeed_file = run.file.get("deepspeed"), run.file
        return
    names = [run.text(name).known for name in _DEEPSPEED]
    if run.accelerate is not None:
        names.append(run.accelerate.get("deepspeed_config", "deepspeed_config_file").string)
    for name in names:
        found = project.file(name, run.document)
        if isinstance(found, ConfigDocument) and found.role == "deepspeed":
            run.deepspeed, run.deepspeed_file = found.node, found
            return
    unnamed = run.launch is None and not any(names)
    if unnamed or any((name or "").endswith(".json") for name in names):
        others = project.near(run.document, project.configs("deepspeed"))
        run.nearby = others[0] if len(others) == 1 else None


_COMMAND = re.compile(r"^\s*#.*?\b(accelerate launch\b.*)$", re.MULTILINE)


def _in_comments(document: ConfigDocument) -> Iterator[TrainerArguments]:
    """The command that a comment of an Accelerate file gives for starting it (``# accelerate launch …``)."""
    for match in _COMMAND.finditer(document.text.content[:20_000]):
        text = Text(document.path, match[1], document.text, match.start(1))
        for command in walk_script(text).commands:
            for launch in launches(command):
                if launch.of("accelerate") is not None and launch.is_python:
                    made = JobLaunch(TrainingJob("shell", document), launch, config=document)
                    yield TrainerArguments(document, made.arguments, made)
