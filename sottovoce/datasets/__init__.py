"""Published data sets by name: how to read their files, and how many questions were published.

A data set is one `DataSet` (see `data_set.py`), registered here or named as an entry point of the group
`sottovoce.datasets`. The data is never part of this package; users give the paths of their files.

Nothing here imports torch or langgraph; the library `datasets` is imported on first access to the hub.
"""

from sottovoce.core.registry import Registry
from sottovoce.datasets.data_set import DataSet as DataSet

OURS = {
    "gsm8k": "answers:GSM8K",
    "mmlu": "answers:MMLU",
    "ecqa": "answers:ECQA",
    "aqua": "answers:AQUA",
    "arithmetic": "answers:ARITHMETIC",
    "ciar": "answers:CIAR",
    "folio": "answers:FOLIO",
    "strategyqa": "answers:STRATEGYQA",
    "fever": "answers:FEVER",
    "fever2": "answers:FEVER2",
    "feverous": "answers:FEVEROUS",
    "hotpotqa": "spans:HOTPOTQA",
    "2wiki": "spans:TWO_WIKI",
    "cwq": "spans:CWQ",
    "quasar_t": "spans:QUASAR_T",
    "triviaqa": "spans:TRIVIAQA",
    "nq": "spans:NQ",
    "humaneval": "humaneval:HUMANEVAL",
    "livecodebench": "humaneval:LIVECODEBENCH",
    "commonmt": "spans:COMMONMT",
    "countries": "contexts:COUNTRIES",
    "tipsheets": "contexts:TIPSHEETS",
    "qasper": "contexts:QASPER",
    "musique": "contexts:MUSIQUE",
    "multifieldqa_en": "contexts:MULTIFIELDQA_EN",
    "2wikimqa": "contexts:TWO_WIKI_MQA",
    "tmath": "contexts:TMATH",
    "medqa": "answers:MEDQA",
}
DATASETS = Registry[DataSet](
    "data set", "sottovoce.datasets", {name: f"sottovoce.datasets.{at}" for name, at in OURS.items()}
)
