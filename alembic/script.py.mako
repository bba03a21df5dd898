"""${message}.

Revision: ${up_revision}, after ${down_revision | comma,n}.
"""

from __future__ import annotations

import sqlalchemy as sa
${imports if imports else ""}
from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}


def upgrade() -> None:
    """Bring the schema to this revision."""
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    """Bring the schema back to the revision before."""
    ${downgrades if downgrades else "pass"}
