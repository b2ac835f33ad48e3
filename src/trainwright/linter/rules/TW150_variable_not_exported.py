"""TW150: a variable for the program that stays in the shell."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.view.job import JobLaunch

_READ = re.compile(
    r"MASTER_(ADDR|PORT)|NCCL_\w+|TORCH_NCCL_\w+|FI_\w+|GLOO_\w+|CUDA_VISIBLE_DEVICES|OMP_NUM_THREADS|PYTORCH_\w+"
    r"|NEURON_\w+|HF_(HOME|TOKEN|HUB_\w+|DATASETS_\w+)|WANDB_\w+|TOKENIZERS_PARALLELISM"
)


class VariableNotExported(LaunchRule):
    """Programs see exported variables only."""

    id = "TW150"
    severity = "warning"
    category = "launch"
    summary = "a variable that the program reads is set and not exported"
    evidence = "reproduced"
    source = "POSIX shell: a variable is in the environment of a command only when it is exported; reproduced"

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Variables of known libraries that nothing on the command line uses."""
        commands = [*subject.launch.outer, subject.launch.command]
        used = {reference.name for c in commands for word in c.words for reference in word.all_references()}
        script = subject.job.script
        if script is not None and any(
            c.name in ("set", "export", "source", ".", "typeset", "declare")
            and any(w.expanded in ("-a", "-o", "allexport") or c.name in ("source", ".") for w in c.words[1:])
            for c in script.plain.commands
        ):
            return
        for name, variable in subject.launch.variables.items():
            if variable.exported or variable.origin != "script" or variable.place is None or name in used:
                continue
            if not _READ.fullmatch(name) or (script is not None and f"export {name}" in script.text.content):
                continue
            if script is not None and len(re.findall(rf"\$\{{?{name}\b", script.text.content)) > 0:
                continue
            fatal = name.startswith("MASTER_") and not subject.tool
            yield self.hit(
                variable.place,
                f"{name} is set in the script only: {subject.launch.script or 'the program'} does not see it"
                + (", and stops when it sets up its process group" if fatal else ", so it has no effect"),
                f"export {name}=…",
                severity="error" if fatal else "note" if name.startswith("MASTER_") else None,
            )
