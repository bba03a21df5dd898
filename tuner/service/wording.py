"""How what a hint names is done by HTTP, and on the pages."""

from __future__ import annotations

from tuner.ways import Way
from tuner.ways import Words

HTTP_WORDS: Words = {
    Way.LIST_STUDIES: "GET /api/v1/studies",
    Way.LIST_TRIALS: "GET /api/v1/studies/{STUDY}/trials",
    Way.LIST_OK_TRIALS: "GET /api/v1/studies/{STUDY}/trials?outcome=ok",
    Way.SHOW_TRIAL: "GET /api/v1/trials/{TRIAL}",
    Way.EXPORT_TRIALS: "GET /api/v1/exports/trials.csv",
    Way.LIST_EVIDENCE: "GET /api/v1/evidence",
    Way.SHOW_EVIDENCE: "GET /api/v1/evidence/{NAME}",
    Way.LIST_JOBS: "GET /api/v1/jobs",
    Way.FINISH_STUDY: "POST /api/v1/studies/{STUDY}/resume",
    Way.ADD_OPERATORS: "the service is started with more by --operators DIR",
    Way.ASK_NEAREST_SHAPE: "ask with match=nearest-shape",
    Way.ASK_SAME_ARCHITECTURE: "ask with match=same-arch",
    Way.NAME_NO_ARCHITECTURE: "leave arch out",
}
PAGE_WORDS: Words = {
    Way.LIST_STUDIES: "the page Studies",
    Way.LIST_TRIALS: "the study's list of trials",
    Way.LIST_OK_TRIALS: "the study's list of trials, filtered by the outcome ok,",
    Way.SHOW_TRIAL: "the page of a trial",
    Way.EXPORT_TRIALS: "the download of all trials on the page Studies",
    Way.LIST_EVIDENCE: "the page Evidence",
    Way.SHOW_EVIDENCE: "the page of a set of evidence",
    Way.LIST_JOBS: "the page Jobs",
    Way.FINISH_STUDY: "Resume on its page",
    Way.ADD_OPERATORS: "the service is started with more by --operators DIR",
    Way.ASK_NEAREST_SHAPE: "ask for the nearest one that was measured, on a device",
    Way.ASK_SAME_ARCHITECTURE: "ask for any device of its architecture",
    Way.NAME_NO_ARCHITECTURE: "choose a device",
}
