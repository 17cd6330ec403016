"""Prompts for the starter model: questions, rewriting, summaries, code, lists, other scripts."""

PROMPTS = (
    "What is the capital of Portugal, and what is it known for?",
    "Explain in three sentences why the sky is blue.",
    "Write a short poem about a lighthouse in winter.",
    "List the planets of the solar system in order, one per line.",
    "Translate into French: The train to the coast leaves at nine in the morning.",
    "Fix the spelling and repeat the sentence: Teh quik brown fox jumpd ovr the lazy dgo.",
    "Summarise: The river rose for three days. On the fourth day the river reached the bridge, and "
    "the village moved to the hill. When the river fell, the village moved back from the hill.",
    "Write a Python function that returns the n-th Fibonacci number.",
    "Rewrite this function with a docstring:\n\n"
    "def area(width, height):\n    return width * height\n",
    "Count from one to thirty in words.",
    "What is 17 times 23? Show the steps.",
    "Repeat after me, three times: the rain in Spain stays mainly in the plain.",
    "Give me a recipe for pancakes with exact amounts.",
    "Who wrote Don Quixote, and when was it first printed?",
    "Make a table of five animals with their sounds, as Markdown.",
    "Turn into JSON: name Ada, age 36, languages English and French.",
    "Tell a story about a clockmaker who loses an hour.",
    "¿Cuáles son los meses del año? Escríbelos en español.",
    "Write a shell command that counts the lines of all .txt files.",
    "Continue: A B C D E F G A B C D E F G A B C",
)
