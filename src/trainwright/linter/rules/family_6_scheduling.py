"""Rules TW6xx: queues, gangs, node pools and autoscaling."""

from __future__ import annotations

SCHEDULING: dict[str, str] = {
    "TW601": "TW601_taint_not_tolerated:TaintNotTolerated",
    "TW602": "TW602_gang_above_its_pods:GangAboveItsPods",
    "TW603": "TW603_gang_below_its_pods:GangBelowItsPods",
    "TW604": "TW604_gang_counts_late_launcher:GangCountsLateLauncher",
    "TW605": "TW605_gang_above_quota:GangAboveQuota",
    "TW606": "TW606_queue_label_misplaced:QueueLabelMisplaced",
    "TW607": "TW607_queue_not_there:QueueNotThere",
    "TW608": "TW608_queue_lacks_resource:QueueLacksResource",
    "TW610": "TW610_disruption_annotation_on_owner:DisruptionAnnotationOnOwner",
    "TW611": "TW611_consolidation_evicts_training:ConsolidationEvictsTraining",
    "TW612": "TW612_budget_blocks_empty:BudgetBlocksEmpty",
    "TW613": "TW613_nodes_expire_during_training:NodesExpireDuringTraining",
    "TW614": "TW614_overlapping_pools:OverlappingPools",
    "TW615": "TW615_node_class_without_identity:NodeClassWithoutIdentity",
    "TW616": "TW616_node_class_image:NodeClassImage",
    "TW617": "TW617_image_family_ended:ImageFamilyEnded",
    "TW618": "TW618_image_not_pinned:ImageNotPinned",
    "TW619": "TW619_network_interfaces_invalid:NetworkInterfacesInvalid",
    "TW620": "TW620_capacity_type_value:CapacityTypeValue",
    "TW621": "TW621_reservation_not_used:ReservationNotUsed",
    "TW622": "TW622_gang_on_mixed_machines:GangOnMixedMachines",
    "TW623": "TW623_gang_on_spot:GangOnSpot",
    "TW624": "TW624_old_pool_fields:OldPoolFields",
    "TW625": "TW625_annotation_not_a_string:AnnotationNotAString",
    "TW626": "TW626_budget_does_not_hold_gang:BudgetDoesNotHoldGang",
    "TW627": "TW627_disk_without_throughput:DiskWithoutThroughput",
    "TW628": "TW628_gang_without_gang_scheduling:GangWithoutGangScheduling",
    "TW629": "TW629_user_data_repeats_the_image:UserDataRepeatsTheImage",
}
