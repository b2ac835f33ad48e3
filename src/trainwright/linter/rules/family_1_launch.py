"""Rules TW1xx: who starts how many processes, and how they find one another."""

from __future__ import annotations

LAUNCH: dict[str, str] = {
    "TW101": "TW101_nnodes_not_nodes:NnodesNotNodes",
    "TW102": "TW102_double_fan_out:DoubleFanOut",
    "TW103": "TW103_node_rank_expanded_early:NodeRankExpandedEarly",
    "TW104": "TW104_directive_after_command:DirectiveAfterCommand",
}
