"""``tuner devices`` and ``tuner doctor``: what is usable here, and how to mend the rest."""

from __future__ import annotations

from tuner.cli import options
from tuner.errors import EnvironmentProblem

DEVICE_COLUMNS = ("device_id", "usable", "architecture", "name", "languages", "reason")
DOCTOR_COLUMNS = ("check", "state", "finding", "remedy")


def devices(
    format_name: options.FormatOption = options.Format.TABLE,
    output: options.Output = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    debug: options.Debug = False,  # noqa: ARG001 - main() looks at it
) -> None:
    """List usable devices and, for the rest, why they are not."""
    from tuner import api
    from tuner.cli.output import print_rows

    options.set_up_logging(quiet=quiet, verbose=verbose)
    rows = [
        {
            "device_id": each.device_id,
            "usable": each.usable,
            "architecture": each.architecture or None,
            "name": each.name or None,
            "languages": [
                name if not reason else f"{name} unavailable: {reason}"
                for name, reason in sorted(each.languages.items())
            ],
            "reason": each.reason or None,
        }
        for each in api.list_devices(options.settings_from())
    ]
    print_rows(
        rows, DEVICE_COLUMNS, schema="tuner.devices/1", format_name=format_name, output=output
    )


def doctor(
    db: options.Db = None,
    format_name: options.FormatOption = options.Format.TABLE,
    output: options.Output = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    debug: options.Debug = False,  # noqa: ARG001 - main() looks at it
) -> None:
    """Check this machine and say how to mend what is amiss."""
    from tuner import api
    from tuner.cli.output import print_rows

    options.set_up_logging(quiet=quiet, verbose=verbose)
    rows = api.diagnose(options.settings_from(db))
    print_rows(
        rows, DOCTOR_COLUMNS, schema="tuner.doctor/1", format_name=format_name, output=output
    )
    if any(row["state"] == "broken" for row in rows):
        raise EnvironmentProblem("tuner can't work here", hint="see the remedies above")
