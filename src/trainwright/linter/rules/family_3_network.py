"""Rules TW3xx: EFA, NCCL and the interfaces between nodes."""

from __future__ import annotations

NETWORK: dict[str, str] = {
    "TW301": "TW301_efa_env_without_device:EfaEnvWithoutDevice",
    "TW302": "TW302_efa_partly_requested:EfaPartlyRequested",
    "TW303": "TW303_efa_more_than_there_are:EfaMoreThanThereAre",
    "TW304": "TW304_efa_not_requested:EfaNotRequested",
    "TW305": "TW305_hugepages_with_karpenter:HugepagesWithKarpenter",
    "TW306": "TW306_hugepages_alone:HugepagesAlone",
    "TW307": "TW307_interface_is_loopback:InterfaceIsLoopback",
    "TW308": "TW308_interface_is_an_address:InterfaceIsAnAddress",
    "TW309": "TW309_interface_list_excludes_eth0:InterfaceListExcludesEth0",
    "TW310": "TW310_interface_not_in_pod:InterfaceNotInPod",
    "TW311": "TW311_host_interface_list_incomplete:HostInterfaceListIncomplete",
    "TW312": "TW312_interface_list_keeps_loopback:InterfaceListKeepsLoopback",
    "TW313": "TW313_eth0_on_host_network:Eth0OnHostNetwork",
    "TW314": "TW314_variable_without_effect:VariableWithoutEffect",
    "TW315": "TW315_variable_renamed:VariableRenamed",
    "TW316": "TW316_variable_harmful:VariableHarmful",
    "TW317": "TW317_variable_obsolete:VariableObsolete",
    "TW318": "TW318_nccl_tuning_pinned:NcclTuningPinned",
    "TW319": "TW319_infiniband_disabled:InfinibandDisabled",
    "TW320": "TW320_fast_network_switched_off:FastNetworkSwitchedOff",
    "TW321": "TW321_peer_access_disabled:PeerAccessDisabled",
    "TW322": "TW322_fork_safe_with_huge_pages:ForkSafeWithHugePages",
    "TW323": "TW323_device_rdma_not_supported:DeviceRdmaNotSupported",
    "TW324": "TW324_nccl_debug_left_on:NcclDebugLeftOn",
    "TW325": "TW325_variable_misspelled:VariableMisspelled",
}
