"""Rules TW0xx: files that cannot be read as they are, and comments that steer the linter."""

from __future__ import annotations

FILES: dict[str, str] = {
    "TW001": "TW001_unreadable:Unreadable",
    "TW002": "TW002_too_large:TooLarge",
    "TW003": "TW003_script_for_windows:ScriptForWindows",
    "TW004": "TW004_duplicate_key:DuplicateKey",
    "TW005": "TW005_ignore_of_no_rule:IgnoreOfNoRule",
    "TW006": "TW006_ignore_without_use:IgnoreWithoutUse",
    "TW007": "TW007_spec_not_valid:SpecNotValid",
    "TW009": "TW009_rule_failed:RuleFailed",
}
