"""The worker process: opens one device and does jobs until its pipe closes.

Messages go over a pipe of their own: what a kernel prints to stdout or stderr lands in the
worker's log file and can't be taken for an answer.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from typing import BinaryIO

from tuner.bench.cross_compile import compile_kernel
from tuner.bench.devices import registry
from tuner.bench.devices.base import Device
from tuner.bench.devices.base import Toolchain
from tuner.bench.fingerprint import environment_of
from tuner.bench.languages.base import Language
from tuner.bench.languages.hip import HipLanguage
from tuner.bench.languages.triton import TritonLanguage
from tuner.bench.trial import Bench
from tuner.bench.trial import build_ahead
from tuner.domain.outcome import Stage
from tuner.domain.records import BuiltAhead
from tuner.environ import process_environment
from tuner.errors import TunerError
from tuner.worker import messages
from tuner.worker.messages import Reply
from tuner.worker.messages import WorkerOptions


class Worker:
    """Answers requests read from one pipe on another."""

    def __init__(self, requests: BinaryIO, replies: BinaryIO) -> None:
        self._requests = requests
        self._replies = replies
        self._languages: Mapping[str, Language] = {
            "hip": HipLanguage(),
            "triton": TritonLanguage(),
        }
        self._toolchains: dict[tuple[str, str, int], Toolchain] = {}
        self._bench: Bench | None = None
        self._device: Device | None = None
        self._loading: threading.Thread | None = None

    def serve(self) -> None:
        """Answer until the parent closes the pipe or the device is lost."""
        for line in self._requests:
            request = messages.decode(line)
            if isinstance(request, messages.LoadLanguages):
                self._begin_loading(request.languages)
                continue
            if not _can_do_while_loading(request):
                self._await_loaded()
            try:
                reply = self._answer(request)
            except TunerError as error:
                reply = messages.WorkerError(type(error).__name__, error.message, error.hint)
            self._send(reply)
            if isinstance(reply, messages.Done) and reply.device_lost:
                return
        if self._bench is not None:
            self._bench.close()

    def _answer(self, request: Any) -> Reply:
        match request:
            case messages.OpenDevice():
                return self._open(request)
            case messages.ListDevices():
                listings = registry.list_devices(_device_options(request.options))
                return messages.Devices(tuple(listings))
            case messages.RunCompile():
                return messages.Compiled(compile_kernel(self._languages, request.job))
            case messages.RunBuild():
                return messages.Built(self._build(request))
            case messages.RunTrial():
                bench = self._any_bench()
                report = bench.run_trial(request.job, self._on_stage)
                return messages.Done((report,), bench.device_lost)
            case messages.Prepare():
                self._any_bench().prepare(request.job, screening=request.screening)
                return messages.Prepared()
            case messages.RunConfirmation():
                bench = self._any_bench()
                reports = bench.run_confirmation(request.job, self._on_stage)
                return messages.Done(tuple(reports), bench.device_lost)
            case messages.RunScreening():
                bench = self._any_bench()
                reports = bench.run_screening(request.job, self._on_stage)
                return messages.Done(tuple(reports), bench.device_lost)
            case messages.MeasureControls():
                bench = self._any_bench()
                reports = bench.run_controls(request.job, self._on_stage)
                return messages.Done(tuple(reports), bench.device_lost)
        raise messages.BadMessage(f"not a request: {request!r}")

    def _open(self, request: messages.OpenDevice) -> Reply:
        options = _device_options(request.options)
        is_auto = request.device_id == "auto"
        device_id = registry.choose_auto(options) if is_auto else request.device_id
        self._device = registry.open_device(device_id, options)
        self._bench = Bench(self._device, self._languages)
        environment = environment_of(self._device, process_environment())
        return messages.Ready(self._device.facts, environment)

    def _begin_loading(self, languages: Sequence[str]) -> None:
        """Load languages beside what is asked next: to open a device is to wait for its driver."""
        self._await_loaded()
        self._loading = threading.Thread(target=self._load, args=(languages,), daemon=True)
        self._loading.start()

    def _load(self, languages: Sequence[str]) -> None:
        for name in languages:
            with contextlib.suppress(TunerError):  # the first build says what is missing
                self._languages[name].load()

    def _await_loaded(self) -> None:
        if self._loading is not None:
            self._loading.join()
            self._loading = None

    def _build(self, request: messages.RunBuild) -> BuiltAhead:
        job = request.job
        key = (job.device_kind, job.target, job.wave_size)
        if key not in self._toolchains:
            options = _device_options(request.options)
            self._toolchains[key] = registry.open_toolchain(*key, options)
        return build_ahead(self._languages, self._toolchains[key], job.kernel)

    def _any_bench(self) -> Bench:
        if self._bench is None:
            raise messages.BadMessage("no device was opened")
        return self._bench

    def _on_stage(self, stage: Stage, position: int) -> None:
        self._send(messages.StageBegun(stage, position))

    def _send(self, reply: Reply) -> None:
        self._replies.write(messages.encode(reply))
        self._replies.flush()


def _can_do_while_loading(request: Any) -> bool:
    """Tell whether a request builds nothing that languages are being loaded for."""
    if isinstance(request, messages.Prepare):
        return not request.job.kernels
    return isinstance(request, messages.OpenDevice)


def _device_options(options: WorkerOptions) -> registry.DeviceOptions:
    return registry.DeviceOptions(
        cache_dir=Path(options.cache_dir),
        cpu_wave_size=options.cpu_wave_size,
        compiler=options.cpu_compiler or None,
    )


def main() -> None:
    """Serve on the two file descriptors that end the command line; see ``tuner.start``."""
    request_fd, reply_fd = (int(text) for text in sys.argv[-2:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    with os.fdopen(request_fd, "rb") as requests, os.fdopen(reply_fd, "wb") as replies:
        Worker(requests, replies).serve()
    # The device is closed and all is said. Python's own end would take 40 ms to give back what
    # the process leaves behind anyway (2-core x86-64, 2026-12-03).
    os._exit(0)
