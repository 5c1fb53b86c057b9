"""The rule flexible by kind of text: each list is one kind, in sentences of our own."""

import json
import lzma
import time
from collections import defaultdict
from decimal import Decimal
from pathlib import Path

import pytest

from gsm8k_nb.answers import RULES, extract, judge, verdict

from ..conftest import SHARED

CASES = SHARED / "cases" / "answers2.jsonl"
DROPPED_TOKENS = (
    "P2-02a"  # reasoning whose marks were dropped as special tokens: nothing in the text tells it from an answer
)

A_CONCLUSION_NAMES_ITS_CONDITION_FIRST = [
    ("So, in 3 years he will be 13.", "13"),
    ("So she will be 21 in 4 years' time.", "21"),
    ("Therefore, it will take Anna 12 minutes to wrap all 6 gifts.", "12"),
    ("Thus, each of the 4 children gets 6 candies.", "6"),
    ("So after 5 days she has 18 eggs left.", "18"),
    ("Therefore, for 3 nights the hotel costs $360.", "360"),
    ("So 3 shirts cost $45.", "45"),
    ("Hence he needs to sell 14 more cars in the next 2 weeks.", "14"),
    ("So the train covers 240 miles in 4 hours.", "240"),
    ("So the average over the 5 days is 12 degrees.", "12"),
    ("Therefore, Maria has 7 more stickers than the 12 that Ben has.", "7"),
    ("So if she sells 9 eggs, she makes 18 dollars.", "18"),
    ("So, for every 2 apples there are 6 pears.", "6"),
    ("Therefore, she spent a total of $56 on 4 tickets.", "56"),
    ("So the 12 friends each get 5 cookies.", "5"),
    ("In 6 weeks, Tom saves $120.", "120"),
    ("So Tom will have $85 left after buying 3 books.", "85"),
    ("Thus, 24 students passed the test in room 12.", "24"),
    ("So they need 5 buses for the 200 pupils.", "5"),
    ("He has 5 left, doesn't he? Yes.", "5"),
    ("So 40% of the 50 students is 20.", "20"),
    ("So 20 is the number of students in 3 rooms.", "20"),
    ("It is 5 - 3 = 2 kg heavier than the 3 kg one.", "2"),
    ("So Jen has 30 - 12 = 18 beads, which is 6 more than 12.", "18"),
    ("The ratio is 3:2, so Tim gets 12.", "12"),
    ("So, it costs $5 + $3 = $8 for 2 people.", "8"),
    ("The final price is $20 - $4 = $16, so he saves $4.", "4"),
    ("So, by the end of week 4, Mia's savings amount to €260.", "260"),
    ("So 5 years ago Ben was 7 years old, and now he is 12.", "12"),
    ("Given that there are 7 days in a week, she earns 210 zł.", "210"),
    ("So he leaves at 5 p.m. after working for 8 hours.", "5"),
    ("The bakery made 18 loaves using 9 kg of flour.", "18"),
    ("So the 2nd pump fills the tank in 6 hours.", "6"),
    ("Only 16 out of the 80 seats stayed empty.", "16"),
]

A_LABEL_IS_FOLLOWED_BY_A_SENTENCE = [
    ("Answer: In 10 years she will be 40.", "40"),
    ("Answer: The 5 friends paid $14 each.", "14"),
    ("Answer: It takes 45 minutes to bake 3 trays.", "45"),
    ("Answer: 6 boxes hold 72 pens.", "72"),
    ("Answer: 27 apples are left after 3 days.", "27"),
    ("Answer: 16 cookies per child for 4 children", "16"),
    ("Answer: The perimeter of the 4 by 6 garden is 20 meters.", "20"),
    ("Final Answer: Tim's age 5 years ago was 12.", "12"),
    ("The answer is that in 5 years Tim will be 17.", "17"),
    ("The answer is 12 pens for 3 boys.", "12"),
    ("**Answer:** The cost of 3 nights would be $210.", "210"),
    ("Answer:\n\nThe 3 cats eat 9 cans a day.", "9"),
    ("Answer - 24 apples in 3 crates", "24"),
    ("The answer, rounded to 2 decimals, is 3.67", "3.67"),
    ("The answer is not 20 but 24.", "24"),
    ("answer: 22\nconfidence: 90", "22"),
    ('{"final_answer": "22", "confidence": 95}', "22"),
]

TIMES_UNITS_AND_GROUPS_OF_DIGITS = [
    ("#### 3:00 pm", "3"),
    ("The meeting starts at 10:00 a.m.", "10"),
    ("The answer is 6:00.", "6"),
    ("The answer is 6:45.", None),
    ("\\boxed{11:00}", "11"),
    ("\\boxed{5\\,\\frac{\\text{km}}{\\text{h}}}", "5"),
    ("\\boxed{12^\\circ\\mathrm{C}}", "12"),
    ("\\boxed{4 \\text{ m/s}}", "4"),
    ("\\boxed{25\\%\\ \\text{of the class}}", "25"),
    ("#### 12 345", "12345"),
    ("The answer is $1 234 567.", "1234567"),
    ("Total: 3'500 francs", "3500"),
    ("The answer is 45~000.", "45000"),
    ("On Day 1 200 people came.", "200"),
    ("He read 15 120-page books", "15"),
    ("The answer (arabic numerals) is:\n\n4\n5\n0", "450"),
    ("The answer is 1-2-0.", "120"),
    ("\\boxed{45 \\; \\frac{\\$}{\\text{hr}}}", "45"),
    ("\\boxed{\\text{In 3 days: } 45}", "45"),
    ("\\boxed{12\\ \\mathrm{m^3}}", "12"),
    ("It costs 1 500 000 ₫ in all.", "1500000"),
    ("Rs. 2,400/-", "2400"),
    ("They collect kr 1 250 in 3 days.", "1250"),
    ("He gets 50p back.", "50"),
    ("The balance is minus 18 dollars.", "-18"),
    ("The temperature will be negative 5 degrees.", "-5"),
    ("So he has 20 minus 5 pens.", None),
]

OTHER_SCRIPTS = [
    ("答案：42。", "42"),
    ("最终答案：**42** 元，共3天。", "42"),
    ("所以她一共有42个。", "42"),
    ("一共是 36 元，每天 12 元。", "36"),
    ("She has 40.\n\n问题：7个人？\n答案：7", "40"),
    ("综上所述，她每天赚 18 美元。", "18"),
    ("最终结果是 56 元（其中 8 元为运费）。", "56"),
    ("したがって、3日後には 21 ページ残ります。", "21"),
    ("他有 13 个。\n答案：无法确定", None),
    ("**答案**：３６", "36"),
]

REASONING_MARKS = [
    ("<thought>maybe the answer is 20</thought>She makes 18.", "18"),
    (
        "<|begin_of_thought|>the answer is 20<|end_of_thought|><|begin_of_solution|>She makes 18.<|end_of_solution|>",
        "18",
    ),
    ("<|channel>thought\nthe answer is 20<channel|>She makes 18.<turn|>", "18"),
    ("<|inner_prefix|>the answer is 20<|inner_suffix|>She makes 18.", "18"),
    ("<scratchpad>the answer is 20</scratchpad>\nShe makes 18.", "18"),
    ("<|START_THINKING|>the answer is 20", None),
    ("<think>6 * 7 = 42, or is it\n</think \nThe answer is 18.", "18"),
    ("<think>6 * 7 = 42\nThe final answer is \\boxed{42", "42"),
    ("<think>6 * 7 = 42, so the answer is 42", None),
    ("assistantfinalShe makes 18.", "18"),
    ("<internal_monologue>the answer is 20</internal_monologue>\nShe makes 18.", "18"),
    ("<think>\nThe answer is \\boxed{20}.\n</think>\n\nThe total is 20 + 4 = 24.", "24"),
]

STATEMENTS_IN_TAGS_BLANKS_AND_BOXES = [
    ("<final_answer>7</final_answer> in 3 steps", "7"),
    ("<ANSWER>\n16 - 3 = 13\n13 * 2 = 26\n</ANSWER>", "26"),
    ("The answer is: ____ \n\n8 + 4 = 12", "12"),
    ("The answer is __12__ for 3 days.", "12"),
    ("#### 20\nWait, I forgot one. So the answer is 21.", "21"),
    ("\\boxed{5} eggs are used. Final answer: 11 eggs in 2 days", "11"),
    ("The answer is 20. No, \\boxed{}", None),
    ("Put it in \\boxed{}. The answer is 7 for 3 days.", "7"),
    ("The answer is 7 for 3 days. I put it in \\boxed{}.", "7"),
    ("Finish[9867650]", "9867650"),
    ("Action 1: Finish[12]", "12"),
    ("A: 4 + 5 = 9.\nA: 9", "9"),
    ("<answer>4 * 5 = 20\n20 + 2 = 22</answer>", "22"),
    ("<result>22</result> took 3 steps", "22"),
    ("[ANSWER] 22 [/ANSWER] in 3 days", "22"),
    ("Answer: 20\n\nOops, that should be 24.", "24"),
    ("#### 20\n\nHold on, she sells 3 dozen. #### 36", "36"),
    ("The answer is 18. This leaves out the tax of 2, so the final answer is 20.", "20"),
]

WORKING_IN_WORDS = [
    ("Half of 60 is divided by 5, which is 6.", "6"),
    ("Then we multiply 9 by 2, which gives 18 dollars.", "18"),
    ("She keeps 14 of them, which is 3 more than 11.", "14"),
    ("He saves $40, which is 20% of $200.", "40"),
    ("The final answer is:\n\nEggs left = 16 - 7 = 9\nMoney = 9 * 2 = 18\n\nSo she makes $18.", "18"),
    ("It weighs 2.5 * 10^(-2) kg", "0.025"),
    ("He needs 3 more boxes to have 12.", "3"),
    ("He has to pay $14 for 3 shirts.", "14"),
    ("She needs to sell 8 more to reach 20.", "8"),
]

NO_ANSWER = [
    ("5 + 6 = 11.\n\nAnswer: It cannot be determined from this.", None),
    ("5 + 6 = 11.\n\nThe answer cannot be determined.", None),
    ("There is not enough information to say how many of the 12 left.", None),
    ("Final answer: unknown", None),
    ("5 + 6 = 11\nAnswer: the pens", None),
    ("So the total is x + 12.", None),
    ("So the total is 12y + 5.", None),
    ("So the total is 3 × n.", None),
    ("The answer is 2x.", None),
    ("So she has 12 + 5 apples.", None),
    ("So the total = 5 +", None),
    ("So the total is (12", None),
    ("So she has 12 eggs and then she", None),
    ("So the total cost of the", None),
    ("The answer depends on the price of the 3 pens.", None),
    ("I don't have enough information to say how many of the 12 are left.", None),
    ("Let x be the number of pens. Then 3x + 4 = 19.", None),
    ("So 5 + y = 12", None),
    ("Therefore Carla wins 2x = 20 games.", "20"),
    ("So 2 x $9 = $18", "18"),
    ("So she earns 4 hours * $15/hour", None),
    ("So the cost is 5 times 6.", None),
]

PROGRAMS_AND_LOOPS = [
    ("price = 12\nprint(price * 3)", None),
    ("def f():\n    return 12 * 3", None),
    ("```python\nprint(12 * 3)\n```", None),
    ("```python\nprint(12 * 3)\n```\nOutput:\n36", "36"),
    ("```python\nx = 12\n```\nSo he has 36 pens.", "36"),
    ("```\n36\n```", "36"),
    ("import math\nx = 3\nprint(x)", None),
    ("So 5 + 5 = 10. So 5 + 5 = 10. So 5 + 5 = 10. So 5 + 5 = 10. So 5 + 5 = 10.", None),
    ("The answer is 10. The answer is 10. The answer is 10. The answer is 10. The answer is 10.", "10"),
    ("```javascript\nlet x = 12;\nconsole.log(x);\n```", None),
    ("She has 12, 14, 16, 18, 20, 22, 24, 26, 28,", None),
]

HEADINGS_OF_LEVEL_FOUR = [
    ("#### Total cost: 4 * 5 = $20\nWith the tip of 10% that is $22.", "22"),
    ("#### 1st week\n5 eggs.\n#### 2nd week\n7 eggs, so 12.", "12"),
    ("#### Answer: 12", "12"),
    ("#### Step 1: 5 + 6 = 11\n11 * 2 = 22\n#### 22", "22"),
]

ASIDES_AND_BOLD = [
    ("She has 18 left.\n\n**Verification:** 18 + 12 = 30.", "18"),
    ("She has 18 left. To check: 18 + 12 = 30.", "18"),
    ("She has 18 left. Shall I explain step 2?", "18"),
    ("She makes **$18** a day over **2** months? No.", "18"),
    ("So John pays **$12** on top of the $100.", "12"),
]

THE_LAST_NUMBER_OF_THE_HIGHEST_RANK = [
    ("Thus the 3 brothers together own 42 marbles.", "42"),
    ("So Carla needs 160 minutes to download a 200 GB file.", "160"),
    ("Thus 20 beads are needed to make 4 bracelets.", "20"),
    ("She will need 54 inches of cloth to make the tablecloth and 8 napkins.", "54"),
    ("They picked 30 apples in 2 hours and 15 minutes.", "30"),
    ("In conclusion, buying 3 tickets at $5 each costs you $15.", "15"),
    ("Now he only has 12 of his original 20 pens.", "12"),
    ("So John ran 3 miles further than Tom's 5 miles.", "3"),
    ("Tom has 7 pens, 2 more than Ann.", "7"),
    ("Since the total is 20, each of them gets 5.", "5"),
    ("So from 9 to 5 he works 8 hours.", "8"),
    ("That is 90 minutes, or 1.5 hours.", "1.5"),
    ("He finishes at 3:00 p.m., which is 2 hours after 1:00 p.m.", "3"),
    ("He makes 12.5 + 7.5 = 20 calls to get 15 customers.", "20"),
    ("So there is a total of 6 + 7 = 13 pieces of $50 and $100 bills in all.", "13"),
    ("Mr. Lee reads 5 pages. Mrs. Lee reads 12.", "12"),
    ("**Answer:** Janet makes **$18** a day (9 eggs at $2).", "18"),
    ("She saves $15/week for 4 weeks = **$60**, so yes, she reaches $50.", "60"),
    ("So the answer is +18.", "18"),
]

AN_ANSWER_STANDS_ALONE = [
    (" 18 dollars\n\nLet's think step by step. 16 - 7 = 9", "18"),
    ("18\n\n# 5\n\nA robe takes 2 bolts", "18"),
    ("18 dollars. Janet has 16 eggs and uses 7, so she sells 9.", "18"),
    ("It is $80 × 1.15 = $92.\n\n**$92**\n\n(An increase of 15%.)", "92"),
    ("#### **1. Count**\nThere are 9.", "9"),
    ("<think>\n9 * 2 = 18\n\n**Final Answer**\n\\boxed{18}", "18"),
    ("<final>18</final>\nThat took 3 steps.", "18"),
    ("#### Day 1: 5 pages\n#### Day 2: 7 pages\nTotal: 12 pages", "12"),
    ("答案：12，000 元", "12000"),
]

WHAT_FOLLOWS_AN_ANSWER = [
    ("x = 36\n\nCheck:\n36 / 3 = 12", "36"),
    ("Janet makes $18.\n\nHere is how:\n16 - 7 = 9 eggs\n9 eggs * $2", "18"),
    ("There are 7 pens left. Let's check: 7 + 3 = 10.", "7"),
    ("There are 7 pens left. I hope this answer is clear. (3 steps)", "7"),
    ("There are 7 pens left.\n\n[Question 2] Tom has 5", "7"),
    ("There are 7 pens left. How many of the 2 boxes are full?", "7"),
    ("How many of the 12 eggs did she sell?", None),
    ("I can't determine how many of the 12 eggs she sold.", None),
    ("She earns $18.\n\n---", "18"),
    ("She earns $18.\n\n---\n\nExercise 2: Tom has 5", "18"),
    ("Julia has 18 eggs left – enough for 3 cakes.", "18"),
]

A_TEXT_THAT_BREAKS_OFF = [
    ("She has 9 eggs left.\n\nTo find the total amount", None),
    ("There are 16 - 7 = 9 eggs left. To do that we multiply", None),
    ("She has 16 eggs. She eats 3. She bakes 4. So every day she sells the other 9 at the", None),
    ("She has 16 eggs. She eats 3. She bakes 4. Then every day she makes 9 times 2", None),
    ("She has 16 eggs. She eats 3. She bakes 4. She sells 9.\n\n**Janet makes $18 every day**", "18"),
    ("Take 5. Add 13 to get 18. Done", "18"),
    ("The rest is 840 which Mr. McPherson will have to raise", "840"),
    ("2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2", None),
    ("int main() { int x = 5; std::cout << x * 2; }", None),
    ("So Tom has 2(n + 3) pens", None),
    ("Final answer = 12.5 meters / 2.5 meters / 2", None),
    ("She has 3 + 4 = 7 apples. She gives 2 to", None),
]

KINDS = (
    *A_CONCLUSION_NAMES_ITS_CONDITION_FIRST,
    *A_LABEL_IS_FOLLOWED_BY_A_SENTENCE,
    *TIMES_UNITS_AND_GROUPS_OF_DIGITS,
    *OTHER_SCRIPTS,
    *REASONING_MARKS,
    *STATEMENTS_IN_TAGS_BLANKS_AND_BOXES,
    *WORKING_IN_WORDS,
    *NO_ANSWER,
    *PROGRAMS_AND_LOOPS,
    *HEADINGS_OF_LEVEL_FOUR,
    *ASIDES_AND_BOLD,
    *THE_LAST_NUMBER_OF_THE_HIGHEST_RANK,
    *AN_ANSWER_STANDS_ALONE,
    *WHAT_FOLLOWS_AN_ANSWER,
    *A_TEXT_THAT_BREAKS_OFF,
)


@pytest.mark.parametrize(("text", "number"), KINDS)
def test_reading_by_kind(text, number):
    assert extract(text, "flexible") == (None if number is None else Decimal(number))


def shared_rows():
    if not CASES.is_file():
        return [pytest.param(None, marks=pytest.mark.skip(reason="../shared/cases/answers2.jsonl is missing"))]
    with CASES.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    argued = pytest.mark.xfail(reason="the paper's rule takes the first marker of the text", strict=True)
    return [pytest.param(row, id=row["id"], marks=argued if row["id"] == DROPPED_TOKENS else ()) for row in rows]


@pytest.mark.parametrize("row", shared_rows())
def test_shared_case_of_a_kind(row):
    wanted = None if row["expected"] is None else Decimal(row["expected"])
    assert extract(row["completion"], row["rule"]) == wanted


# A set of our own: what three small models wrote for problems of the classroom set, labelled by hand before gold or the
# readings of any rule were seen; half drawn at random (seeded), half where rules disagree. The texts of SmolLM2 stand
# in the stored runs.

LABELLED = Path(__file__).with_name("labelled.jsonl")
STORED = Path(__file__).resolve().parents[2] / "outputs" / "stored"
LEAST = {"random": 0.97, "contested": 0.90}
MODELS = ("SmolLM2-135M-Instruct", "Qwen/Qwen2.5-Coder-0.5B-Instruct", "Qwen/Qwen2.5-Coder-1.5B-Instruct")


def labelled():
    """(model, half, text, finish reason, answer or None) of each completion."""
    stored = {}
    for file in STORED.glob("*/samples.jsonl.xz"):
        with lzma.open(file, "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                stored[file.parent.name, row["problem_id"], row["sample_index"]] = row
    with LABELLED.open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            sample = row if "text" in row else stored[row["run"], row["problem_id"], row["sample_index"]]
            answer = None if row["answer"] is None else Decimal(row["answer"])
            [model] = [name for name in MODELS if row["run"].startswith(name)]
            yield model, row["half"], sample["text"], sample["finish_reason"], answer


def test_the_labelled_completions_are_read_as_a_careful_person_reads_them():
    right, others = defaultdict(list), defaultdict(list)
    for model, half, text, finish_reason, answer in labelled():
        for group in (("all", half), (model, half)):
            right[group].append(judge(text, 1, "flexible", finish_reason)[0] == answer)
            others[group].append(extract(text, "lm_eval_flexible") == answer)
    assert len(right["all", "random"]) >= 130 and len(right["all", "contested"]) >= 180
    assert set(right) == {(group, half) for group in ("all", *MODELS) for half in LEAST}
    for (group, half), read in right.items():
        share = sum(read) / len(read)
        slack = 0 if group == "all" else 1 / len(read)  # one text more of one model alone
        assert share >= LEAST[half] - slack and share > sum(others[group, half]) / len(read), (group, half)


# What is known about a completion is used.

CUT = [
    ("She has 12 eggs. She sells them for 3", None),
    ("Step 1: 4 * 5 = 20\nStep 2: 20 + 7 = 27", None),
    ("So she has 12 eggs left.", None),
    ("The answer is 12. Let me check that: 4 + 8", "12"),
    ("It is \\boxed{12}. As a check, 4 + 8", "12"),
    ("#### 12\n\nThe 4 boxes hold", "12"),
    ("She has 12.\n\nQ: Tom has 5 pens and", "12"),  # the first answer was not cut
    ("She has 12.<|im_end|>\n<|im_start|>user\nTom has 5", "12"),
]


@pytest.mark.parametrize(("text", "number"), CUT)
def test_a_completion_ended_by_the_token_limit_has_a_stated_answer_or_none(text, number):
    wanted = None if number is None else Decimal(number)
    assert verdict(text, 12, "flexible", finish_reason="length").predicted == wanted
    assert judge(text, 12, "flexible", "length") == (wanted, number is not None)


def test_other_rules_and_other_endings_know_nothing_of_the_token_limit():
    assert extract("So she has 12 eggs left.", "flexible") == 12
    assert judge("So she has 12 eggs left.", 12, "flexible", "stop") == (Decimal(12), True)
    assert judge("#### 12", 12, "strict", "length") == (Decimal(12), True)
    assert judge("So 12", 12, "lm_eval_flexible", "length") == (Decimal(12), True)


def test_rules_carry_versions():
    assert (RULES["strict"].version, RULES["flexible"].version) == ("2", "4")
    assert all(rule.version for rule in RULES.values())


MEGABYTE = {
    "prose": "She sells 9 eggs for $2 each, so 9 * 2 = 18 dollars. Then Answer: 12 in 3 days.\n",
    "one line": "so the answer for the day is that we go on with 3 of the ",
    "numbers": "1 ",
    "thousands": "1 000 ",
    "lines": "\n",
    "boxes": "\\boxed{",
    "full boxes": "\\boxed{7} ",
    "latex": "\\frac{1}{2} \\text{ab} ",
    "chinese": "所以答案是 18。½ １２，３",
    "fences": "```\n",
    "thoughts": "<think></think>",
    "single digits": "1-",
    "questions": "Question: how many 5?\n",
    "labels": "答案是",
    "rules": "---\n",
    "unknowns": "2x + 3 = 7, ",
    "negatives": "it should be negative 5 ",
}


@pytest.mark.parametrize("name", MEGABYTE)
def test_a_megabyte_is_read_in_a_second(name):
    text = MEGABYTE[name] * (1_000_000 // len(MEGABYTE[name]))
    for rule in ("strict", "flexible"):
        fastest = min(_seconds(text, rule) for _ in range(3))
        assert fastest < 1


def _seconds(text, rule):
    start = time.process_time()
    extract(text, rule)
    return time.process_time() - start
