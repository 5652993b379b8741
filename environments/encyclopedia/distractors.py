"""Distractor sentences of articles, among which facts must be found; none contains a cue of its kind's relations.

In a sentence {s} is the subject and {n} is a number.
"""

from __future__ import annotations

from sottovoce.environments.encyclopedia.relations import Kind

ASIDES: dict[Kind, tuple[str, ...]] = {
    "person": (
        "{s} kept a diary, of which {n} volumes are lost.",
        "No portrait is certain; the one in the town hall shows a cousin.",
        "Friends remembered {s} as a patient listener and a poor loser at cards.",
        "Of the letters that {s} wrote, {n} are in private hands.",
        "A street was named after {s}, and renamed {n} years later.",
        "For {n} winters {s} hardly left the house.",
        "Contemporaries found the manner of {s} dry, and the handwriting worse.",
        "A collection of {n} pressed ferns that {s} made hangs in a school.",
    ),
    "town": (
        "The market is held under {n} lime trees.",
        "Of its old walls {n} towers remain.",
        "A fire destroyed the upper quarter, and {n} houses were rebuilt in brick.",
        "In summer a ferry goes {n} times a day.",
        "Its archive holds {n} ledgers in a hand that nobody has read.",
        "The bells of the two churches are never rung together.",
        "A narrow railway served the quarries for {n} years.",
        "Visitors are told to try the plum cake.",
    ),
    "country": (
        "Its flag was changed {n} times within a decade.",
        "Wool and slate leave by {n} harbours.",
        "A census is taken every {n} years.",
        "The mountain passes are closed from the first snow to the thaw.",
        "Its railways have a gauge of their own.",
        "Stamps of the first issue are sought after.",
        "Schools close for {n} weeks at harvest.",
        "Two islands off its coast are claimed by nobody.",
    ),
    "river": (
        "There are {n} bridges, one of them covered.",
        "In dry summers it can be waded in {n} places.",
        "Salmon returned after the weirs had been opened.",
        "Barges carried slate for {n} years, until the railway came.",
        "The towpath is kept by volunteers.",
        "A flood is recorded on {n} stones along the bank.",
        "Its water is brown from the peat.",
        "Otters have been counted each spring since the mills closed.",
    ),
    "book": (
        "The first readers complained of its {n} footnotes.",
        "A second edition corrected {n} misprints and added others.",
        "Only {n} copies of the first edition are known.",
        "It was read aloud in schools for {n} years.",
        "Critics praised the weather in it.",
        "The manuscript was found in a hat box.",
        "A stage version closed after {n} evenings.",
        "Its last page has been left blank in every edition.",
    ),
    "firm": (
        "At its height it had {n} hands.",
        "A fire in the drying loft cost it {n} weeks of work.",
        "Its catalogue lists {n} patterns.",
        "The workers' band won {n} prizes.",
        "It has been sold twice, and bought back both times.",
        "Its chimney is the tallest for miles.",
        "Apprentices are paid in the second year.",
        "The yard is open to visitors on {n} days a year.",
    ),
}
