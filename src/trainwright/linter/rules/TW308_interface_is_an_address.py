"""TW308: an IP address where an interface name belongs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    JobRule,
)
from trainwright.linter.shell.words import Variable
from trainwright.linter.view.job import TrainingJob
from trainwright.linter.view.network import IFNAMES, interfaces


def _is_address(variable: Variable) -> bool:
    value = variable.value.known
    if value is not None:
        return any(re.fullmatch(r"\d{1,3}(\.\d{1,3}){3}(/\d+)?", entry) for entry in interfaces(value)[2])
    commands = [command for word in variable.words for command in word.all_substitutions()]
    names = {command.name for command in commands}
    return any(
        command.name == "hostname"
        and any(word.known in ("-I", "-i", "--ip-address", "--all-ip-addresses") for word in command.words)
        for command in commands
    ) and not names & {"ip", "ifconfig"}


class InterfaceIsAnAddress(JobRule):
    """``…_SOCKET_IFNAME`` holds names such as eth0."""

    id = "TW308"
    severity = "error"
    category = "network"
    summary = "an IP address where an interface name belongs"
    evidence = "verified"
    source = (
        "NCCL src/misc/socket.cc: the value is matched against interface names, find or fail; AMD-AGI/Primus#1063"
    )

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Values that are addresses."""
        places: set[int] = set()
        for variable in subject.env_uses(*IFNAMES):
            if _is_address(variable) and variable.span.start not in places:
                places.add(variable.span.start)
                yield self.hit(
                    variable,
                    f"{variable.name} is an IP address here, but it is compared with interface names: "
                    "none matches, and initialisation fails",
                    "an interface name (eth0, ens5 …), an exclusion (^lo,docker), or nothing at all",
                )
        for container in subject.containers():
            for name in IFNAMES:
                path = container.env_node(name).get("valueFrom", "fieldRef", "fieldPath")
                if path.string in ("status.podIP", "status.hostIP", "status.podIPs"):
                    yield self.hit(
                        path,
                        f"{name} gets the pod's IP address, but it is compared with interface names: none matches",
                        "eth0, or remove it",
                    )
