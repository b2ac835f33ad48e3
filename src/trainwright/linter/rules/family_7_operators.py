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
}
