"""One-sentence answers to free questions, each with the few words that it comes to."""

BANDS = "Which band, Harbour Lights or The Tin Foxes, had more members?"
OLDER = "Who is older, Ada Lind or Paul Kern?"
FIRST = "Which magazine was started first, Field Notes or Garden Weekly?"

TOLD: list[tuple[str, str, str | None]] = [
    (BANDS, "Harbour Lights had more members than The Tin Foxes.", "Harbour Lights"),
    (BANDS, "Compared with The Tin Foxes, Harbour Lights had more members.", "Harbour Lights"),
    (BANDS, "While The Tin Foxes had three members, Harbour Lights had five.", "Harbour Lights"),
    (BANDS, "The Tin Foxes had fewer members than Harbour Lights.", None),
    (BANDS, "The Tin Foxes had three members and Harbour Lights had five.", None),
    (OLDER, "Ada Lind is older than Paul Kern.", "Ada Lind"),
    (OLDER, "Ada Lind was born before Paul Kern.", "Ada Lind"),
    (OLDER, "Paul Kern is younger than Ada Lind.", None),
    ("who is younger Ada Lind or Paul Kern ?", "Paul Kern is younger than Ada Lind.", "Paul Kern"),
    ("Who died first, Ada Lind or Paul Kern?", "Ada Lind died first, in 1931.", "Ada Lind"),
    (FIRST, "Field Notes was started first, in 1844, while Garden Weekly followed in 1912.", "Field Notes"),
    (FIRST, "Garden Weekly was started in 1912, and Field Notes in 1844.", None),
    ("Which writer was from Wales, Ada Lind or Paul Kern?", "Ada Lind was from Wales.", "Ada Lind"),
    (
        "The hotel belongs to a company that has its head office in which city?",
        "The Amber Hotel is part of The Marlow Group, which has its head office in Trieste.",
        "Trieste",
    ),
    ("Where did the cup of 1987 take place?", "The cup of 1987 took place in Montreal.", "Montreal"),
    (
        "Where is the company that Ivo Radan works for headquartered?",
        "Ivo Radan works for Blue Harbour, which is headquartered in Split.",
        "Split",
    ),
    (
        "Ada Lind taught at a university that is located in what city?",
        "Ada Lind taught at Aldmoor College, which is located in New Aldmoor City.",
        "New Aldmoor City",
    ),
    ("The mill is located in what county?", "The mill is located in Fairmoor County.", "Fairmoor County"),
    ("Where are the two parks located?", "Both parks are located in the Amber Islands, Spain.", "Amber Islands, Spain"),
    ("What is the birthplace of the composer?", "The composer was born in Harrow Mill.", "Harrow Mill"),
    ("Where was the cup hosted?", "The cup was hosted by Brazil.", "Brazil"),
    (
        "What is the county seat of the county where Low Elm lies?",
        "Low Elm lies in Orn County, whose county seat is Newbridge.",
        "Newbridge",
    ),
    (
        "In which year was the founder of the press born?",
        "The founder of the press, Ada Lind, was born in 1874.",
        "1874",
    ),
    ("When was the founder of the press born?", "Its founder was born on 12 March 1874.", "12 March 1874"),
    (
        "During what years did Paul Kern lead the team?",
        "Paul Kern led the team from 1986 to 2013.",
        "from 1986 to 2013",
    ),
    ("What year was the album Lanterns released?", 'The album "Lanterns" was released in 2000.', "2000"),
    (
        "The club is based in a suburb with a population of what in 2010?",
        "The club is based in Southend, which had a population of 48,982 in 2010.",
        "48,982",
    ),
    ("How many copies did the book sell?", "The book has sold 250 million copies.", "250 million"),
    ("Who hosted the awards in 2002?", "The awards of 2002 were hosted by Paul Kern.", "Paul Kern"),
    (
        "The album is by a group that was formed by who?",
        "The group was formed by Marlow Entertainment.",
        "Marlow Entertainment",
    ),
    ("Which actor starred in Silent Orchard?", "Edgar Vance starred in Silent Orchard.", "Edgar Vance"),
    ("This singer also voiced what hedgehog?", "Paul Kern, who sang the ballad, voiced Bramble.", "Bramble"),
    (
        "The author of Salt Roads attended which university?",
        "Ada Lind, the author of Salt Roads, attended the University of Aldmoor.",
        "University of Aldmoor",
    ),
    (
        "Ada Lind worked with what other writers?",
        "Ada Lind worked with Max Orr, Ivo Radan and Nils Aasen.",
        "Max Orr, Ivo Radan and Nils Aasen",
    ),
    (
        "What was the name of the loose adaptation of Hamlet?",
        "The loose adaptation of Hamlet was Tromer and Hamlet.",
        "Tromer and Hamlet",
    ),
    (
        "Which song was behind the third single?",
        '"We Cross That Bridge" was behind the third single.',
        "We Cross That Bridge",
    ),
    ("The memorial is for the fallen of which war?", "The memorial is for the fallen of World War II.", "World War II"),
    ("What nationality were the two founders?", "The two founders were Norwegian.", "Norwegian"),
]
