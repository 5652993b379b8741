"""What is known outside: passages that fit a question, from indexes on disk and from services.

Importing this loads no index library, no torch and no Java: each is loaded when a retriever that needs
it is opened.
"""

from sottovoce.retrievers.passage import Hit as Hit
from sottovoce.retrievers.passage import Passage as Passage
from sottovoce.retrievers.passage import Searcher as Searcher
from sottovoce.retrievers.registry import open_retriever as open_retriever
from sottovoce.retrievers.retriever import PassageRetriever as PassageRetriever
