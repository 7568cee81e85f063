"""What `kbsync doctor` says of sealed credentials: which keys are still needed, and which are missing (LS-19)."""

from __future__ import annotations

from kbsync.domain.errors import SettingsError
from kbsync.library.credentials import Vault
from ops.findings import Finding, Patient, Severity
from ops.key_rotation import key_use

LOOKED_AT = 5_000
CHECK = "credentials"


async def examine_secrets(patient: Patient) -> list[Finding]:
    """Looks at the first LOOKED_AT credentials."""
    keys = patient.settings.credentials_keys
    try:
        vault = Vault(keys.get_secret_value() if keys else None)
    except SettingsError as error:
        return [Finding(CHECK, Severity.ERROR, str(error), "correct KBSYNC_CREDENTIALS_KEYS")]
    use = await key_use(patient.database, vault, at_most=LOOKED_AT)
    findings = []
    if use.lost:
        some = ", ".join(f"data source {one} of organization {organization}" for organization, one in use.lost_ids[:5])
        what = f"{use.lost} credentials can't be opened with any key that is set here: {some}"
        cure = (
            "add the key that sealed them to KBSYNC_CREDENTIALS_KEYS, or enter them again: `kbsync source credentials`"
        )
        findings.append(Finding(CHECK, Severity.ERROR, what, cure))
    if use.older:
        what = f"{use.older} credentials are sealed with a key that is not the first one"
        cure = "`kbsync keys rotate` seals them with the first key; then the older ones can be dropped"
        findings.append(Finding(CHECK, Severity.WARNING, what, cure))
    return findings
