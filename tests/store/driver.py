"""A program that tests start and kill: it drives a study and tells each trial it has stored.

Usage: driver.py DATABASE STUDY TRIALS [hold]

Prints ``open`` when the study is open, and a trial's number when ``finish_trial`` has returned.
With ``hold`` it then keeps one more trial running and waits.
"""

from __future__ import annotations

import sys
import time

from tuner.store import open_store
from tuner.testing.store_values import BYTES_MOVED
from tuner.testing.store_values import GEOMETRY
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import make_point
from tuner.testing.store_values import make_report


def say(text: str) -> None:
    """Tell the test at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(database: str, study: str, trials: int, *, hold: bool) -> None:
    """Run trials that are not stored as ok yet."""
    with open_store(database, create=True, writable=True) as store:
        recorder = store.recorder()
        study_id = recorder.open_study(make_definition(study), fresh=False).study_id
        say("open")
        done = {
            each.point.config["BLOCK"]
            for each in recorder.stored_trials(study_id)
            if each.outcome == "ok"
        }
        for block in range(trials):
            if block in done:
                continue
            trial_id = recorder.start_trial(study_id, make_point(block), GEOMETRY)
            report = make_report([block + 1.0 + position / 64 for position in range(50)])
            recorder.finish_trial(trial_id, report, bytes_moved=BYTES_MOVED)
            say(str(block))
        if hold:
            recorder.start_trial(study_id, make_point(trials), GEOMETRY)
            say("holding")
            time.sleep(60)
        recorder.finish_study(study_id)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), hold="hold" in sys.argv)
