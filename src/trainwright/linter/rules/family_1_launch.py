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
    "TW114": "TW114_rendezvous_id_differs:RendezvousIdDiffers",
    "TW115": "TW115_ntasks_contradicts_per_node:NtasksContradictsPerNode",
    "TW116": "TW116_framework_counts_not_tasks:FrameworkCountsNotTasks",
    "TW117": "TW117_world_size_not_tasks:WorldSizeNotTasks",
    "TW118": "TW118_srun_loses_cpus:SrunLosesCpus",
    "TW119": "TW119_accelerate_file_processes:AccelerateFileProcesses",
    "TW120": "TW120_accelerate_processes_per_node:AccelerateProcessesPerNode",
    "TW121": "TW121_mpi_processes_not_slots:MpiProcessesNotSlots",
    "TW122": "TW122_only_first_node_used:OnlyFirstNodeUsed",
    "TW123": "TW123_completion_index_without_indexed:CompletionIndexWithoutIndexed",
    "TW124": "TW124_completions_not_parallelism:CompletionsNotParallelism",
    "TW125": "TW125_address_does_not_resolve:AddressDoesNotResolve",
}
