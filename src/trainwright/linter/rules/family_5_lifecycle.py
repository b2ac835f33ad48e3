"""Rules TW5xx: start, signals, end, restart and checkpoints."""

from __future__ import annotations

LIFECYCLE: dict[str, str] = {
    "TW501": "TW501_sidecar_blocks_completion:SidecarBlocksCompletion",
    "TW502": "TW502_upload_without_final_flush:UploadWithoutFinalFlush",
    "TW503": "TW503_checkpoints_die_with_pod:CheckpointsDieWithPod",
    "TW504": "TW504_checkpoints_on_node_disk:CheckpointsOnNodeDisk",
    "TW505": "TW505_model_only_cannot_resume:ModelOnlyCannotResume",
    "TW506": "TW506_object_store_as_checkpoint_folder:ObjectStoreAsCheckpointFolder",
    "TW507": "TW507_one_node_claim_across_nodes:OneNodeClaimAcrossNodes",
    "TW508": "TW508_shell_keeps_sigterm:ShellKeepsSigterm",
    "TW509": "TW509_grace_below_save:GraceBelowSave",
    "TW510": "TW510_grace_above_spot_notice:GraceAboveSpotNotice",
    "TW511": "TW511_slurm_signal_misses_program:SlurmSignalMissesProgram",
    "TW512": "TW512_batch_signal_without_trap:BatchSignalWithoutTrap",
    "TW513": "TW513_requeue_truncates_log:RequeueTruncatesLog",
    "TW514": "TW514_restarts_from_scratch:RestartsFromScratch",
    "TW515": "TW515_gang_restarts_one_pod:GangRestartsOnePod",
    "TW516": "TW516_restart_policy_of_a_task:RestartPolicyOfATask",
    "TW517": "TW517_training_in_a_deployment:TrainingInADeployment",
    "TW518": "TW518_failure_is_hidden:FailureIsHidden",
    "TW519": "TW519_started_in_background:StartedInBackground",
    "TW520": "TW520_upload_deletes_at_target:UploadDeletesAtTarget",
    "TW521": "TW521_killed_without_grace:KilledWithoutGrace",
    "TW522": "TW522_download_holds_accelerators:DownloadHoldsAccelerators",
    "TW523": "TW523_long_job_without_way_back:LongJobWithoutWayBack",
    "TW524": "TW524_trainer_beside_sidecar_in_a_deployment:TrainerBesideSidecarInADeployment",
    "TW525": "TW525_pre_stop_above_grace:PreStopAboveGrace",
}
