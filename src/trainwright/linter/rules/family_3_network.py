"""Rules TW3xx: EFA, NCCL and the interfaces between nodes."""

from __future__ import annotations

NETWORK: dict[str, str] = {
    "TW301": "TW301_efa_env_without_device:EfaEnvWithoutDevice",
}
