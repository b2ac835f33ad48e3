"""Rules TW1xx: who starts how many processes, and how they find one another."""

from __future__ import annotations

LAUNCH: dict[str, str] = {
    "TW101": "TW101_nnodes_not_nodes:NnodesNotNodes",
    "TW102": "TW102_double_fan_out:DoubleFanOut",
    "TW103": "TW103_node_rank_expanded_early:NodeRankExpandedEarly",
    "TW104": "TW104_directive_after_command:DirectiveAfterCommand",
    "TW105": "TW105_meets_on_loopback:MeetsOnLoopback",
    "TW106": "TW106_no_meeting_point:NoMeetingPoint",
    "TW107": "TW107_meets_at_itself:MeetsAtItself",
    "TW108": "TW108_same_node_rank_everywhere:SameNodeRankEverywhere",
    "TW109": "TW109_node_rank_missing:NodeRankMissing",
    "TW110": "TW110_port_differs_per_node:PortDiffersPerNode",
    "TW111": "TW111_meets_at_submit_node:MeetsAtSubmitNode",
    "TW112": "TW112_host_address_may_be_loopback:HostAddressMayBeLoopback",
    "TW113": "TW113_fixed_port_on_shared_node:FixedPortOnSharedNode",
}
