"""How what a hint names is done by HTTP, and on the pages."""

from __future__ import annotations

from tuner.ways import Way
from tuner.ways import Words

# Done by nobody through the service.
_ADD_FOLDER = "whoever runs the service can add a folder with more"
_IMPORT = "whoever runs the service can import more"
_TAKE_JOBS = "whoever runs the service can have jobs for another one taken, on its machine"
_REPORT = "whoever runs the service can write the report of one so large"

HTTP_WORDS: Words = {
    Way.LIST_STUDIES: "GET /api/v1/studies",
    Way.LIST_TRIALS: "GET /api/v1/studies/{STUDY}/trials",
    Way.LIST_OK_TRIALS: "GET /api/v1/studies/{STUDY}/trials?outcome=ok",
    Way.FIND_TRIAL: "GET /api/v1/studies/STUDY/trials lists a study's",
    Way.SHOW_TRIAL: "GET /api/v1/trials/{TRIAL}",
    Way.EXPORT_TRIALS: "GET /api/v1/exports/trials.csv",
    Way.LIST_EVIDENCE: "GET /api/v1/evidence",
    Way.SHOW_EVIDENCE: "GET /api/v1/evidence/{NAME}",
    Way.ADD_EVIDENCE: _IMPORT,
    Way.LIST_RECORDS: "GET /api/v1/studies and GET /api/v1/evidence list what is stored",
    Way.LIST_JOBS: "GET /api/v1/jobs",
    Way.TAKE_JOBS: _TAKE_JOBS,
    Way.NEXT_PAGE: "pass back `next` of the page before, with the same filters",
    Way.REPORT_STUDY: _REPORT,
    Way.FINISH_STUDY: "POST /api/v1/studies/{STUDY}/resume",
    Way.ADD_OPERATORS: _ADD_FOLDER,
    Way.ADD_STUDIES: _ADD_FOLDER,
    Way.UPGRADE_DATABASE: "`tuner db upgrade`",  # asked by what watches the service
    Way.ASK_NEAREST_SHAPE: "ask with match=nearest-shape",
    Way.ASK_SAME_ARCHITECTURE: "ask with match=same-arch",
    Way.NAME_NO_ARCHITECTURE: "leave arch out",
}
PAGE_WORDS: Words = {
    Way.LIST_STUDIES: "the page Studies",
    Way.LIST_TRIALS: "the study's list of trials",
    Way.LIST_OK_TRIALS: "the study's list of trials, filtered by the outcome ok,",
    Way.FIND_TRIAL: "the page of a study leads to its trials",
    Way.SHOW_TRIAL: "the page of a trial",
    Way.EXPORT_TRIALS: "the download of all trials on the page Studies",
    Way.LIST_EVIDENCE: "the page Evidence",
    Way.SHOW_EVIDENCE: "the page of a set of evidence",
    Way.ADD_EVIDENCE: _IMPORT,
    Way.LIST_RECORDS: "the pages Studies and Evidence list what is stored",
    Way.LIST_JOBS: "the page Jobs",
    Way.TAKE_JOBS: _TAKE_JOBS,
    Way.NEXT_PAGE: "begin with the first page of the list",
    Way.REPORT_STUDY: _REPORT,
    Way.FINISH_STUDY: "Resume on its page",
    Way.ADD_OPERATORS: _ADD_FOLDER,
    Way.ADD_STUDIES: _ADD_FOLDER,
    Way.UPGRADE_DATABASE: "whoever runs the service",
    Way.ASK_NEAREST_SHAPE: "ask for the nearest one that was measured, on a device",
    Way.ASK_SAME_ARCHITECTURE: "ask for any device of its architecture",
    Way.NAME_NO_ARCHITECTURE: "choose a device",
}
