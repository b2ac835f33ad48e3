"""Rules TW7xx: operators, their kinds and their schemas."""

from __future__ import annotations

OPERATORS: dict[str, str] = {
    "TW701": "TW701_container_name:ContainerName",
    "TW702": "TW702_name_too_long:NameTooLong",
    "TW703": "TW703_rayjob_queued_keeps_cluster:RayjobQueuedKeepsCluster",
    "TW704": "TW704_rayjob_modes_contradict:RayjobModesContradict",
    "TW705": "TW705_ray_start_parameters:RayStartParameters",
    "TW706": "TW706_ray_versions_differ:RayVersionsDiffer",
    "TW707": "TW707_ray_workers_do_not_fit:RayWorkersDoNotFit",
    "TW708": "TW708_ray_replica_bounds:RayReplicaBounds",
    "TW709": "TW709_volcano_pytorch_plugin:VolcanoPytorchPlugin",
    "TW710": "TW710_volcano_without_names:VolcanoWithoutNames",
    "TW711": "TW711_volcano_words:VolcanoWords",
    "TW712": "TW712_kind_not_in_group:KindNotInGroup",
    "TW713": "TW713_version_gone:VersionGone",
    "TW714": "TW714_trainjob_drops_accelerators:TrainjobDropsAccelerators",
    "TW715": "TW715_trainjob_override_field:TrainjobOverrideField",
    "TW716": "TW716_runtime_cannot_be_trained:RuntimeCannotBeTrained",
    "TW717": "TW717_jobset_names_unknown:JobsetNamesUnknown",
    "TW718": "TW718_slinky_fields:SlinkyFields",
    "TW719": "TW719_slinky_gpus_unknown_to_slurm:SlinkyGpusUnknownToSlurm",
    "TW720": "TW720_selector_and_labels:SelectorAndLabels",
    "TW721": "TW721_replica_types:ReplicaTypes",
    "TW722": "TW722_run_policy_placement:RunPolicyPlacement",
    "TW723": "TW723_namespace_on_cluster_kind:NamespaceOnClusterKind",
    "TW724": "TW724_kueue_fields_of_older_version:KueueFieldsOfOlderVersion",
    "TW725": "TW725_mpi_operator_flags:MpiOperatorFlags",
}
