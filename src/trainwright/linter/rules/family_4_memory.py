"""Rules TW4xx: memory, shared memory and files of one node."""

from __future__ import annotations

MEMORY: dict[str, str] = {
    "TW401": "TW401_no_shared_memory:NoSharedMemory",
    "TW402": "TW402_shm_on_disk:ShmOnDisk",
    "TW403": "TW403_shm_above_memory_limit:ShmAboveMemoryLimit",
    "TW404": "TW404_shm_too_small:ShmTooSmall",
    "TW405": "TW405_shm_unbounded:ShmUnbounded",
    "TW406": "TW406_volume_not_declared:VolumeNotDeclared",
    "TW407": "TW407_two_mounts_one_path:TwoMountsOnePath",
    "TW408": "TW408_scratch_not_requested:ScratchNotRequested",
    "TW409": "TW409_small_node_disk:SmallNodeDisk",
    "TW410": "TW410_emptydir_above_storage_limit:EmptydirAboveStorageLimit",
    "TW411": "TW411_slurm_memory_options_exclude:SlurmMemoryOptionsExclude",
    "TW412": "TW412_data_in_memory_volume:DataInMemoryVolume",
    "TW413": "TW413_hostpath_shm:HostpathShm",
    "TW414": "TW414_scratch_above_node_disk:ScratchAboveNodeDisk",
    "TW415": "TW415_notebook_without_shared_memory:NotebookWithoutSharedMemory",
}
