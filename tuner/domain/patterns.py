"""How texts that users write may look: as patterns of Python and JSON Schema, and in words."""

from __future__ import annotations

from tuner.domain.device import DEVICE_NAMES
from tuner.domain.device import DEVICE_PATTERN

WORD_PATTERN = r"^[a-z][a-z0-9_-]{0,62}$"
PARAMETER_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]{0,62}$"
# Sets are named on the command line, where a bare number means a row.
EVIDENCE_PATTERN = r"^[a-z][a-z0-9._-]{0,62}$"
IDEMPOTENCY_KEY_PATTERN = r"^[\x21-\x7e]{1,200}$"

IN_WORDS = {
    WORD_PATTERN: "1 to 63 of a-z, 0-9, _ and -, a letter first",
    PARAMETER_PATTERN: "1 to 63 of A-Z, a-z, 0-9 and _, no digit first",
    EVIDENCE_PATTERN: "1 to 63 of a-z, 0-9, dots, _ and -, a letter first",
    IDEMPOTENCY_KEY_PATTERN: "1 to 200 visible ASCII characters, without spaces",
    DEVICE_PATTERN: DEVICE_NAMES,
}
