"""What ``/metrics`` shows: this process's requests, and what the database says at that moment."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client import Counter
from prometheus_client import Gauge
from prometheus_client import generate_latest
from prometheus_client import Histogram
from prometheus_client.core import CounterMetricFamily
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from tuner import __version__
from tuner import api
from tuner.errors import TunerError
from tuner.settings import Settings

_log = logging.getLogger("tuner.service")

BEST_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
# Sums over all trials take about a second at 10^6 of them.
TALLY_MAX_AGE_S = 15.0


class Metrics:
    """The metrics of one service, in a registry of their own.

    Args:
        settings: Say which database is asked.
        clock: Seconds, for the age of what the database said last.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "tuner_http_requests",
            "Requests answered, by route",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._best = Histogram(
            "tuner_best_lookup_seconds",
            "Time to answer which config is best",
            buckets=BEST_BUCKETS_S,
            registry=self._registry,
        )
        version = Gauge("tuner_info", "Version of tuner", ("version",), registry=self._registry)
        version.labels(__version__).set(1)
        self._registry.register(_DatabaseCollector(settings, clock))

    def show_answers(self, kept: Callable[[], int], waiting: Callable[[], int]) -> None:
        """Show how many answers to ``best`` are kept, and how many are to be made ahead."""
        for name, text, count in (
            ("tuner_best_answers_kept", "Answers to best that are kept", kept),
            ("tuner_best_answers_waiting", "Answers to best still to be made ahead", waiting),
        ):
            Gauge(name, text, registry=self._registry).set_function(count)

    def count_request(self, method: str, route: str, status: int) -> None:
        """Count an answered request by its route's template, never by its path."""
        known = method if method in _METHODS else "other"
        self._requests.labels(known, route, str(status)).inc()

    def note_best_lookup(self, seconds: float) -> None:
        """Count a lookup that took so long."""
        self._best.observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class _DatabaseCollector(Collector):
    """Asks the database when the metrics are read, but not more often than it is worth."""

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._asked_at = -TALLY_MAX_AGE_S
        self._last: tuple[Metric, ...] = ()
        self._problem = ""

    def collect(self) -> Iterable[Metric]:
        """Return the database's metrics; only ``tuner_database_up`` 0 where it can't be read."""
        now = self._clock()
        if now - self._asked_at < TALLY_MAX_AGE_S and self._last:
            return self._last
        try:
            self._last = tuple(_families(api.database_tallies(self._settings)))
        except TunerError as error:
            self._last = ()  # a failure is not kept: it is asked for again each time
            self._note(str(error))
            return (_up(0),)
        self._asked_at = now
        self._note("")
        return self._last

    def _note(self, problem: str) -> None:
        """Log why the database can't be read, once, and that it can be read again."""
        if problem and problem != self._problem:
            _log.warning("the database can't be read: %s", problem)
        elif self._problem and not problem:
            _log.warning("the database can be read again")
        self._problem = problem

    def describe(self) -> Iterable[Metric]:
        """Return nothing: registering must not read the database."""
        return ()


def _families(tallies: api.DatabaseTallies) -> Iterator[Metric]:
    yield _up(1)
    trials = CounterMetricFamily(
        "tuner_trials", "Trials stored, by outcome", labels=("outcome", "device", "architecture")
    )
    for outcome, device, architecture, count in tallies.trials:
        trials.add_metric((outcome, device, architecture), count)
    yield trials
    stages = CounterMetricFamily(
        "tuner_trial_stage_seconds", "Time spent on trials, by stage", labels=("stage", "device")
    )
    for stage, device, seconds in tallies.stage_seconds:
        stages.add_metric((stage, device), seconds)
    yield stages
    queue = GaugeMetricFamily("tuner_jobs", "Jobs, by state", labels=("state", "device"))
    depth = GaugeMetricFamily("tuner_queue_depth", "Jobs that wait", labels=("device",))
    for state, device, count in tallies.jobs:
        queue.add_metric((state, device), count)
        if state == "queued":
            depth.add_metric((device,), count)
    yield queue
    yield depth


def _up(value: int) -> Metric:
    return GaugeMetricFamily("tuner_database_up", "1 where the database could be read", value=value)
