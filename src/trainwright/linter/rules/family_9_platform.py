"""Rules TW9xx: storage, security, Helm and Argo CD."""

from __future__ import annotations

PLATFORM: dict[str, str] = {
    "TW901": "TW901_fsx_size:FsxSize",
    "TW902": "TW902_fsx_throughput:FsxThroughput",
    "TW903": "TW903_fsx_waits_for_consumer:FsxWaitsForConsumer",
    "TW904": "TW904_lustre_without_flock:LustreWithoutFlock",
    "TW905": "TW905_efs_class_incomplete:EfsClassIncomplete",
    "TW906": "TW906_fsx_volume_without_dns_name:FsxVolumeWithoutDnsName",
    "TW907": "TW907_fsx_association_in_file_system:FsxAssociationInFileSystem",
    "TW908": "TW908_volumes_in_different_zones:VolumesInDifferentZones",
    "TW909": "TW909_claim_in_another_namespace:ClaimInAnotherNamespace",
    "TW910": "TW910_block_claim_shared:BlockClaimShared",
    "TW911": "TW911_scratch_for_checkpoints:ScratchForCheckpoints",
    "TW912": "TW912_file_system_not_mounted:FileSystemNotMounted",
    "TW913": "TW913_efs_class_without_owner:EfsClassWithoutOwner",
    "TW914": "TW914_configuration_in_another_namespace:ConfigurationInAnotherNamespace",
    "TW920": "TW920_secret_in_plain_text:SecretInPlainText",
    "TW921": "TW921_privileged_training:PrivilegedTraining",
    "TW922": "TW922_image_may_change:ImageMayChange",
    "TW923": "TW923_image_past_support:ImagePastSupport",
    "TW930": "TW930_chart_key_unknown:ChartKeyUnknown",
    "TW931": "TW931_profile_override_unknown:ProfileOverrideUnknown",
    "TW932": "TW932_profile_volumes_replace_home:ProfileVolumesReplaceHome",
    "TW933": "TW933_profile_start_timeout:ProfileStartTimeout",
    "TW934": "TW934_profile_name_not_hardware:ProfileNameNotHardware",
    "TW935": "TW935_profile_image_frozen:ProfileImageFrozen",
    "TW936": "TW936_self_heal_undoes_autoscaling:SelfHealUndoesAutoscaling",
    "TW937": "TW937_profile_not_placed:ProfileNotPlaced",
    "TW938": "TW938_profiles_without_culling:ProfilesWithoutCulling",
    "TW939": "TW939_application_before_its_definitions:ApplicationBeforeItsDefinitions",
}
