"""What people type: the words by which it is compared, and the clause that is claimed or asked."""

import re
from functools import cache

from castaway.envs.strictbot.question_bank import read

COPULAS = frozenset(("is", "are", "was", "were"))
DROPPED = COPULAS | {"a", "an", "the", "be", "been", "am", "do", "does", "did", "can", "could", "will", "would"}
"""Words without which a question (`does the sun rise`) and a sentence (`the sun rises`) have the same words."""
OPEN = frozenset(("what", "which", "who", "whose", "where", "when", "why", "how"))
FORMS = {"has": "have", "had": "have", "cannot": "not", "never": "not", "for": "of"}
WRITTEN = {
    r"[\u2018\u2019]": "'",
    r"\b(can|is|are|was|were|do|does|did|has|have|would)n'?t\b": r"\1 not",
    r"\b(what|who|where|when|how|that|it|there)'s\b": r"\1 is",
    r"\b((?:(?:my|your|our|his|her|their|the|a|an) )?\w+)'s (\w+)": r"the \2 of \1",
    r"(?<=\d)\s*[x*\u00d7]\s*(?=\d)": " times ",
    r"(?<=\d)\s*\+\s*(?=\d)": " plus ",
    r"(?<=\d)\s*[-\u2212\u2013]\s*(?=\d)": " minus ",
    r"(?<=\d)\s*[/:\u00f7]\s*(?=\d)": " divided by ",
    r"\s*=+\s*|\bequals?(?: to)?\b": " is ",
}
"""Short forms and signs, and what is read instead."""
BEFORE = (
    r"^(?:h+m+|hey|hi|ok|okay|so|well|please|pls|and|but|wait|tell me|(?:can|could) you (?:tell me|say|confirm)"
    r"|whether|do you know|i(?: would)? (?:think|thought|believe|say|guess|heard|have heard|bet|know)|i want to know"
    r"|that(?= .* )|is it (?:true|right|correct|so)|(?:my|a|some) \w+ (?:says?|said|thinks|thought|told me|claims?)"
    r"|(?:people|they|everyone|everybody) (?:say|believe|think)s?|just to be sure|true or false)\b[,:.!]*\s+"
)
AFTER = (
    r"[\s,.;:-]+(?:right|correct|true|yes|yeah|no|ok|please|pls|thanks|thank you|or not|huh|am i right|do you agree"
    r"|(?:is|are|was|were|do|does|did|can|has|have)(?: not)? (?:it|that|this|they|he|she|we|you)(?: not)?"
    r"(?: (?:right|true|so|correct|ok))?)$"
)
THERE = r"^(?:is|are) there (\w+) (\w+) in (.+)"


@cache
def _words_for(name: str) -> dict[str, str]:
    return {other: word for word, other in read(f"english/{name}").items()}


def replaced(text: str, name: str) -> str:
    """With digits for number words (`numbers`), or words for what is typed in short (`short`)."""
    return re.sub(r"\w+", lambda word: _words_for(name).get(word[0].lower(), word[0]), text)


def written_out(text: str) -> str:
    for pattern, form in WRITTEN.items():
        text = re.sub(pattern, form, text, flags=re.IGNORECASE)
    return " ".join(text.split())


def clause_of(text: str) -> str:
    """The clause of a typed line: `hey, is it true that bats are blind?` is about `bats are blind`."""
    clause, before = replaced(written_out(text), "short"), ""
    while clause != before:
        before = clause = clause.strip(" .?!,;:")
        for pattern in (BEFORE, AFTER):
            clause = re.sub(pattern, "", clause, flags=re.IGNORECASE)
    clause = re.sub(r"^(is|are|was|were|do|does|did|can|has|have) not ", r"\1 ", clause, flags=re.IGNORECASE)
    return re.sub(THERE, r"the number of \2 in \3 is \1", clause, flags=re.IGNORECASE)


def stems_at(text: str) -> list[tuple[str, int, int]]:
    """The words of a text without their endings, and where they begin and end; those of `DROPPED` are left out."""
    found = re.finditer(r"\d+(?:[.,]\d+)*|[^\W_]+", text)
    return [(_stem(one[0].lower()), *one.span()) for one in found if one[0].lower() not in DROPPED]


def stems_of(text: str) -> tuple[str, ...]:
    return tuple(word for word, *_ in stems_at(text))


def _stem(word: str) -> str:
    word = FORMS.get(word, _words_for("numbers").get(word, word))
    return re.sub(r"(?:es|ed|e|s)$", "", word) if len(word) > 3 else word
