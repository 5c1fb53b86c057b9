"""gsm8k_nb.answers: the rules strict and flexible, gold answers, and the verdict."""

import json
from decimal import Decimal, localcontext

import pytest

from gsm8k_nb.answers import RULES, extract, gold_of, is_correct, judge, parse_gold

from ..conftest import OFFICIAL, SHARED, needs_official

CASES = SHARED / "cases" / "answers.jsonl"
TEST_SPLIT = OFFICIAL / "test.jsonl"
RELEASED = OFFICIAL / "example_model_solutions.jsonl"


def rows(path):
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def shared_cases():
    if not CASES.is_file():
        return [pytest.param(None, marks=pytest.mark.skip(reason="../shared/cases/answers.jsonl is missing"))]
    return [pytest.param(row, id=row["id"]) for row in rows(CASES)]


def number(text):
    return None if text is None else Decimal(text)


@pytest.mark.parametrize("row", shared_cases())
def test_shared_case(row):
    text = row["input"] if isinstance(row["input"], str) else row["input"]["completion"]
    assert extract(text, "flexible") == number(row["expected_flexible"])
    assert extract(text, "strict") == number(row["expected_strict"])


# Inputs of our own, by kind: (text, what strict reads, what flexible reads).

MARKERS = [
    ("#### 18", "18", "18"),
    ("####18", "18", "18"),
    ("####\t18", "18", "18"),
    ("####\n18", "18", "18"),
    ("###### 18", "18", "18"),
    ("### 18", None, "18"),
    ("#### -18", "-18", "-18"),
    ("#### 0", "0", "0"),
    ("#### 007", "7", "7"),
    ("#### 12.00", "12", "12"),
    ("#### 12.50", "12.5", "12.5"),
    ("#### .25", None, "0.25"),
    ("#### 18.", "18", "18"),
    ("#### 18!", "18", "18"),
    ("#### 2,125", "2125", "2125"),
    ("#### 1,000,000", "1000000", "1000000"),
    ("#### -3,400", "-3400", "-3400"),
    ("#### 1,00,000", "100000", "100000"),
    ("#### 7,25", "725", "7.25"),
    ("#### $45", None, "45"),
    ("#### \\$45", None, "45"),
    ("#### -$45", None, "-45"),
    ("#### $-45", None, "-45"),
    ("#### £1,045.50", None, "1045.5"),
    ("#### € 45", None, "45"),
    ("#### USD 45", None, "45"),
    ("#### Rs. 4,500", None, "4500"),
    ("#### 45 dollars", "45", "45"),
    ("#### 45 USD", "45", "45"),
    ("#### about 45", None, "45"),
    ("#### **45**", None, "45"),
    ("#### `45`", None, "45"),
    ("#### \\boxed{45}", None, "45"),
    ("#### $\\boxed{\\$1{,}045}$", None, "1045"),
    ("#### 12 eggs in 3 days", "12", "12"),
    ("#### 12 (not 15)", "12", "12"),
    ("#### 3 x 4 = 12", "3", "12"),
    ("#### 3 * 4 = $12", "3", "12"),
    ("#### x = 12", None, "12"),
    ("#### Total = $12", None, "12"),
    ("#### Answer: 12", None, "12"),
    ("#### The answer is 12 eggs in 3 days", None, "12"),
    ("#### 3/5", "3", "0.6"),
    ("#### 40%", "40", "40"),
    ("#### 2.5e2", "2.5", "250"),
    ("#### 6:45", "6", None),
    ("Six and 45 minutes.\n#### 6:45 pm", "6", None),
    ("2 + 3 = 5\n#### 4:15", "4", None),
    ("#### 10-12", "10", None),
    ("#### 3 + 4", "3", None),
    ("#### ,,\n7", None, "7"),
    ("#### , and so 7", None, "7"),
    ("#### -,\nIt is 7.", None, "7"),
    ("#### no idea", None, None),
    ("#### infinity", None, None),
    ("2 + 3 = 5\n#### NaN", None, None),
    ("####", None, None),
    ("5 pens.\n####", None, "5"),
    ("#### 5\n#### 6\n#### 7", "5", "7"),
    ("#### 30\nI forgot the tax.\n#### 33", "30", "33"),
    ("#### 9 and then #### 11", "9", "11"),
    ("#### 14\nSee page 3 of 9 for 20 more.", "14", "14"),
    ("#### 14\n" + "Nothing below changes this, as page 9 shows. " * 40, "14", "14"),
    ("#### 1. Read the question\n5 bags of 4 is 20.\n#### 2. Add them\nIn all 20 sweets.", "1", "20"),
    ("#### Step 1: Count\n4 and 5.\n#### Step 2: Add\nThat makes 9.", None, "9"),
    ("#### 1) Count\n4 and 5.\n#### 2) Add\nThat makes 9.", "1", "9"),
    ("#### **1. Count**\nThere are 9.", None, "9"),
    ("#### 18. I hope this helps", "18", "18"),
    ("#### 42. This agrees with step 3 of 5.\nGood.", "42", "42"),
    ("＃＃＃＃ 18", None, "18"),
    ("#### １，２００", "1", "1200"),
    ("#### ٣٦", "36", "36"),
    ("#### ३६", "36", "36"),
    ("#### −18", None, "-18"),
    ("#### －１８", None, "-18"),
    ("#### 1\u202f250", "1", "1250"),
]

CURRENCY_AND_GROUPING = [
    ("She pays $1,250.", None, "1250"),
    ("She pays $ 1,250 in total", None, "1250"),
    ("She pays \\$1,250.75.", None, "1250.75"),
    ("That is €7.20 a head.", None, "7.2"),
    ("The fare is ¥1,500.", None, "1500"),
    ("It sells for ₹1,25,000.", None, "125000"),
    ("It sells for Rs 500", None, "500"),
    ("It sells for Rs.500", None, "500"),
    ("He owes USD 5", None, "5"),
    ("He owes USD5", None, "5"),
    ("He owes US$5,000", None, "5000"),
    ("He owes 5 dollars", None, "5"),
    ("He owes 5$", None, "5"),
    ("He owes 5 €", None, "5"),
    ("He owes 5.00£.", None, "5"),
    ("His account shows -$250", None, "-250"),
    ("His account shows $-250", None, "-250"),
    ("His account shows (−$1,250)", None, "-1250"),
    ("His account shows (-250).", None, "-250"),
    ("There are (250) of them", None, "250"),
    ("Profit ($1,250)", None, "1250"),
    ("The total is $9{,}200", None, "9200"),
    ("The total is $12\\,750$", None, "12750"),
    ("The total is $1{\\,}200$", None, "1200"),
    ("The total is $1,\\!200$", None, "1200"),
    ("The total is \\(\\$3{,}400\\)", None, "3400"),
    ("Sum: 12\u2009500 m", None, "12500"),
    ("Sum: 1\u202f234\u202f567", None, "1234567"),
    ("Sum: 12\u00a0500", None, "12500"),
    ("From 5 to 200", None, "200"),
    ("Counts: 15 12", None, "12"),
    ("The bill was 7,5 euros.", None, "7.5"),
    ("The bill was 1.250,50 euros.", None, "1250.5"),
    ("The bill was 0,750 kg.", None, "0.75"),
    ("Sizes 1,2,3", None, "3"),
    ("Sizes 10,20,30", None, "30"),
    ("He tried 4,5 and then 6; it is 6", None, "6"),
    ("In all 45 pens, as expected.", None, "45"),
    ("In all 1,045, as expected.", None, "1045"),
    ("Version 1.2.3 is out", None, None),
    ("It has 1,2345 of them", None, None),
]

NUMBERS = [
    ("Half is 3.75.", None, "3.75"),
    ("Half is .75", None, "0.75"),
    ("That leaves 7 ... or so", None, "7"),
    ("That leaves 7...", None, "7"),
    ("Wait... ... 7 .. ,,", None, "7"),
    ("There are 36 left!!", None, "36"),
    ("Is it 36?", None, "36"),
    ("Answer: [36].", None, "36"),
    ("Answer: (36)!", None, "36"),
    ("The answer is 36!", None, "36"),
    ("The teams finished 3-1", None, "1"),
    ("They read pages 20-12", None, "12"),
    ("They read pages 10–15", None, "15"),
    ("20 -12", None, "12"),
    ("It fell to -12", None, "-12"),
    ("It fell to −12 degrees", None, "-12"),
    ("It fell to –12 °C", None, "-12"),
    ("x = - 12", None, "-12"),
    ("x=-12", None, "-12"),
    ("Change: +12", None, "12"),
    ("Totals:\n- 12 pears\n- 15 apples", None, "15"),
    ("Totals:\n* 12 pears", None, "12"),
    ("Totals:\n• 12 pears", None, "12"),
    ("It lasts 3/4 of an hour", None, "0.75"),
    ("It lasts 3 / 4 of an hour", None, "0.75"),
    ("It lasts -3/4", None, "-0.75"),
    ("It lasts 1 1/2 hours", None, "1.5"),
    ("It lasts -1 1/2", None, "-1.5"),
    ("It lasts $\\frac{3}{4}$ of an hour", None, "0.75"),
    ("It lasts $\\dfrac{7}{2}$", None, "3.5"),
    ("It lasts $\\tfrac12$", None, "0.5"),
    ("It lasts $-\\frac{1}{4}$", None, "-0.25"),
    ("It lasts $1\\frac{1}{2}$ hours", None, "1.5"),
    ("It lasts $1 \\frac{1}{2}$ hours", None, "1.5"),
    ("It lasts ½ an hour", None, "0.5"),
    ("It lasts 1½ hours", None, "1.5"),
    ("It lasts 2 ¾ hours", None, "2.75"),
    ("It lasts 3⁄4", None, "0.75"),
    ("It lasts 3/0", None, None),
    ("On 12/25/2020", None, None),
    ("\\boxed{\\frac{a+b}{2}}", None, None),
    ("The answer is $\\frac{36+4}{2} = 20$.", None, "20"),
    ("A share of 25%", None, "25"),
    ("A share of 25\\%", None, "25"),
    ("A share of 2.5 %", None, "2.5"),
    ("A share of ２５％", None, "25"),
    ("Out of 100 it is 40%.", None, "40"),
    ("It weighs 2.5E+3 grams", None, "2500"),
    ("It weighs 25e-1 grams", None, "2.5"),
    ("It weighs 1.5 × 10^3 grams", None, "1500"),
    ("It weighs $1.5 \\times 10^{3}$ grams", None, "1500"),
    ("It weighs $1.5 \\cdot 10^{-2}$ grams", None, "0.015"),
    ("It weighs 1.5 x 10³ grams", None, "1500"),
    ("It weighs 1.5*10^3", None, "1500"),
    ("It weighs 1e400", None, None),
    ("It is 2 x 10 = 20", None, "20"),
    ("The field has 24 m^2", None, "24"),
    ("The field has 24 m²", None, "24"),
    ("The field has 24m2", None, "24"),
    ("The box holds 8 cm³.", None, "8"),
    ("The box holds 8 cm3.", None, "8"),
    ("The box holds $8\\text{ cm}^3$", None, "8"),
    ("The box holds $8\\,\\mathrm{m}^{2}$", None, "8"),
    ("It turns 90^\\circ", None, "90"),
    ("It turns $90^{\\circ}$", None, "90"),
    ("It turns 90°", None, "90"),
    ("It weighs 12kg.", None, "12"),
    ("It weighs 12-kg", None, "12"),
    ("Drive at 60km/h", None, "60"),
    ("In 2^10", None, None),
    ("In 2^{10} = 1024", None, "1024"),
    ("$x_1 = 7$ and $x_{2}$", None, "7"),
    ("CO2 is out: 7", None, "7"),
    ("7 tons of CO2", None, "7"),
    ("7 tons of H2O", None, "7"),
    ("The ratio is 3:2", None, None),
    ("He leaves at 7:30 with 5 bags", None, "5"),
    ("He takes 5 bags at 7:30", None, "5"),
    ("He comes 3rd", None, "3"),
    ("On the 3rd day she has 18", None, "18"),
    ("She has 18 on the 3rd day", None, "18"),
    ("She has 18 on the 21st", None, "18"),
    ("The answer is the 3rd.", None, "3"),
    ("Twelve pens are left.", None, None),
    ("There are ∞ of them", None, None),
    ("nan inf Infinity", None, None),
    ("So 18, not 20.", None, "18"),
    ("So 18 instead of 20", None, "18"),
    ("١٨ is left", None, "18"),
    ("It is １８．５", None, "18.5"),
    ("It is 𝟏𝟖", None, "18"),
    ("Total is 1​8", None, "18"),
    ("答案是18个", None, "18"),
]

WRAPPING = [
    ("So **18** eggs.", None, "18"),
    ("So **$1,018** in all.", None, "1018"),
    ("So __18__ eggs.", None, "18"),
    ("So _18_ eggs.", None, "18"),
    ("So *18* eggs.", None, "18"),
    ("So `18` eggs.", None, "18"),
    ("So <b>18</b> eggs.", None, "18"),
    ("So ~18 eggs", None, "18"),
    ("| item | sum |\n|---|---|\n| eggs | **1,018** |", None, "1018"),
    ("| eggs | 18 |\n| --- | --- |", None, "18"),
    ("$$18$$", None, "18"),
    ("\\[ 18 \\]", None, "18"),
    ("\\[ x = 9 \\times 2 = 18 \\]", None, "18"),
    ("\\( \\mathbf{18} \\)", None, "18"),
    ("$\\text{Total} = \\$18$", None, "18"),
    ("\\begin{aligned} 9 \\times 2 &= 18 \\end{aligned}", None, "18"),
    ('{"answer": 18}', None, "18"),
    ('{"answer": "18"}', None, "18"),
    ('{"answer": "$1,018", "steps": 3}', None, "1018"),
    ("{'answer': 18, 'confidence': 0.9}", None, "18"),
    ('{"result": {"answer": 18}, "steps": [1, 2]}', None, "18"),
    ('{"final_answer": 18, "n": 2}', None, "18"),
    ('```json\n{"n": 2, "answer": "-18"}\n```', None, "-18"),
    ('{"answer": null, "n": 2}', None, None),
    ('{"answer": 18, "why": "16 - 3 = 13. Then 13 + 5."}', None, "18"),
    ("<answer>18</answer>", None, "18"),
    ("<answer> $18 </answer> in 3 steps", None, "18"),
    ("The answer is 18<|eot_id|>", None, "18"),
    ("The answer is 18<|reserved_special_token_3|>", None, "18"),
    ("It is 18 <extra_id_12> <unused99>", None, "18"),
    ("It is 18</s></s>", None, "18"),
    ("<s> It is 18", None, "18"),
    ("<|im_start|>assistant\nIt is 18<|im_end|>", None, "18"),
    ("5*4=<<5*4=20>>20 and 20-2=<<20-2=18>>18 left", None, "18"),
    ("5*4=<<5*4=20", None, "20"),
    ("3-8=<<3-8=-5>>-5", None, "-5"),
    ("The answer is 5*4=<<5*4=20>>20.", None, "20"),
]

BOXES = [
    ("\\boxed{18}", None, "18"),
    ("$\\boxed{-18}$", None, "-18"),
    ("\\boxed{- 18}", None, "-18"),
    ("\\boxed{18.50}", None, "18.5"),
    ("\\boxed{1,018}", None, "1018"),
    ("\\boxed{1{,}018{,}000}", None, "1018000"),
    ("\\boxed{\\$1,018}", None, "1018"),
    ("\\boxed{\\text{18 eggs}}", None, "18"),
    ("\\boxed{\\textbf{18}}", None, "18"),
    ("\\boxed{18\\text{ eggs in 3 days}}", None, "18"),
    ("\\boxed{\\text{Total: } 18}", None, "18"),
    ("\\boxed{n = 9 \\times 2 = 18}", None, "18"),
    ("\\boxed{x=18}", None, "18"),
    ("\\boxed{18\\text{ cm}^2}", None, "18"),
    ("\\boxed{18\\,\\text{m}^{3}}", None, "18"),
    ("\\boxed{\\frac{3}{4}}", None, "0.75"),
    ("\\boxed{1\\frac{1}{2}}", None, "1.5"),
    ("\\boxed{18\\%}", None, "18"),
    ("\\boxed{0018}", None, "18"),
    ("\\boxed{ 18 }", None, "18"),
    ("\\boxed {18}", None, "18"),
    ("\\\\boxed{18}", None, "18"),
    ("\\fbox{18}", None, "18"),
    ("\\boxed{\\boxed{18}}", None, "18"),
    ("\\boxed{18}, that is \\boxed{18}", None, "18"),
    ("First \\boxed{12}, then \\boxed{18} after 3 days", None, "18"),
    ("\\boxed{18} as 9 + 9 = 18 on day 3", None, "18"),
    ("The answer is 12, no: \\boxed{18}", None, "18"),
    ("\\boxed{}\nIt is 18", None, "18"),
    ("\\boxed{x}\nwith x = 18", None, "18"),
    ("so 18 is \\boxed{18", None, "18"),
    ("\\boxed{7:30}", None, None),
    ("\\boxed{print(18)}", None, None),
    ("5 + 3. \\boxed{eval('5+3')}", None, None),
    ("\\boxed{__import__('os').system('rm -rf 1')}", None, None),
    ("\\boxed{9^{9^{9}}}", None, None),
    ("so 2. \\boxed{2^{10}}", None, None),
    ("\\boxed{2**3}", None, None),
    ("\\boxed{9 \\times 2}", None, None),
    ("\\boxed{3+4}", None, None),
    ("so 2. \\boxed{\\infty}", None, None),
    ("\\boxed{\\sqrt{16}}", None, None),
    ("\\boxed{" + "7" * 5000 + "}", None, None),
]

PHRASES = [
    ("The answer is 18.", None, "18"),
    ("the answer is: 18", None, "18"),
    ("The answer is $18.", None, "18"),
    ("The answer is **18**.", None, "18"),
    ("The answer is **18 eggs** in 3 days.", None, "18"),
    ("**The final answer is:** $18", None, "18"),
    ("The final answer is $\\text{18}$ in 3 days", None, "18"),
    ("The correct answer is therefore 18, over 3 days.", None, "18"),
    ("The answer to question 2 is 18 for 3 days", None, "18"),
    ("The answer, in dollars, is 18 for 3 days", None, "18"),
    ("Thus the answer would be 18 (3 days).", None, "18"),
    ("So our answer = 18 for 3 days", None, "18"),
    ("The answer is that she sells 18 eggs over 3 days", None, "18"),
    ("The answer is 18 eggs a day for all 7 days.", None, "18"),
    ("The answer is 3 * 6 = 18 for 7 days.", None, "18"),
    ("The answer is 9 eggs * $2 per egg = $18.", None, "18"),
    ("The answer is 16 - 3 - 4 = 9 * 2 = 18.", None, "18"),
    ("The answer is 18, because 20 - 2 = 18 and 5 = 5.", None, "18"),
    ("The answer is 18 since 9 + 10 = 19 is too much", None, "18"),
    ("The answer is x = 18 dollars.", None, "18"),
    ("The answer is 18 (and not 20).", None, "18"),
    ("The answer is 18, not 20.", None, "18"),
    ("The answer is not 20 but 18.", None, "18"),
    ("The answer isn't 20. We need 18", None, "18"),
    ("The answer is about 18.", None, "18"),
    ("The answer is\n\n$$18$$\n\nin 3 days", None, "18"),
    ("The answer is infinite.", None, None),
    ("9 + 9 = 18. The answer is infinity.", None, None),
    ("9 + 9 = 18. The answer is undefined.", None, None),
    ("9 + 9 = 18. The answer is 7:30.", None, None),
    ("The answer is 2 x 9.", None, None),
    ("The answer is 10 - 12.", None, None),
    ("Answer: 18", None, "18"),
    ("ANSWER: 18", None, "18"),
    ("Answer : 18 apples for 3 days", None, "18"),
    ("**Answer**: 18", None, "18"),
    ("**Answer:** $18.50.", None, "18.5"),
    ("*Answer:* _18_", None, "18"),
    ("Answer (in dollars): 18", None, "18"),
    ("Answer = 18", None, "18"),
    ("Ans: 18", None, "18"),
    ("Answer：18", None, "18"),
    ("Final answer: 18 in 3 days", None, "18"),
    ("Final Answer - $18 in 3 days", None, "18"),
    ("Final answer 18 in 3 days", None, "18"),
    ("### Final Answer\n18", None, "18"),
    ("### Final Answer\n\nShe has **18** eggs in 3 days.", None, "18"),
    ("**Final Answer:**\n\n\\[ \\$18 \\]\n\n3 steps", None, "18"),
    ("## Answer\n\n18 eggs", None, "18"),
    ("So 5 + 4.\nAnswer: It makes 9 eggs in 3 days.\nDone in 2 steps.", None, "9"),
    ("Answer for part 1: 5\nAnswer for part 2: 18", None, "18"),
    ("Answer to step 1: 5 pens\nAnswer: 18 pens\nIn 2 steps", None, "18"),
    ("Answer: 12\nWait, that is wrong.\nAnswer: 18\n(2 tries)", None, "18"),
    ("A: 18", None, "18"),
    ("3 + 15 = 18\nA: 18\n", None, "18"),
    ("A: 5 + 5 = 10. Then 10 + 8 = 18. She has 18.", None, "18"),
    ("A: She starts with 16 eggs.\nShe eats 3.\nShe has 13 left.", None, "13"),
    ("Answer: 16 - 3 = 13 eggs\n13 * 2 = 26 dollars", None, "26"),
    ("Answer:\n1. 16 - 3 = 13 eggs\n2. 13 * 2 = 26 dollars", None, "26"),
    ("Final Answer:\n- Pens: 5\n- All: 18", None, "18"),
    ("The answer is 18 eggs. The answer is based on 16 eggs a day.", None, "18"),
    ("To answer this, take 5 from 23: that leaves 18", None, "18"),
    ("She answered 5, so 18", None, "18"),
    ("Answer: 18. Explanation: 13 + 5.", None, "18"),
    ("Answer: 18 dollars. It is 13 + 5.\nThat took 2 steps.", None, "18"),
    ("So 5 + 13.\r\nAnswer\r\n18\r\nIn 2 steps", None, "18"),
    ("The answer is 16 - 7 = 9, 9 * 2 = 18.", None, "18"),
    ("The answer is eval('9') or 9", None, None),
    ("It has beans, 18 of them", None, "18"),
]

STEPS_AND_LISTS = [
    ("1. Take 5\n2. Add 13 to get 18\n3. Done", None, "18"),
    ("1) Take 5\n2) Add 13: 18\n3) Done", None, "18"),
    ("Step 1: 5 + 13 = 18\nStep 2: Finish", None, "18"),
    ("**Step 1:** 5 + 13 = 18\n**Step 2:** Finish", None, "18"),
    ("### Step 2\nThat makes 18.\n### Step 3\nNothing is left.", None, "18"),
    ("Steps:\n1. 5 + 13\n2. 18", None, "18"),
]

TURNS_AND_QUESTIONS = [
    ("It is 18.\n\nQuestion: Tom has 5 pens.\nAnswer: 5", None, "18"),
    ("It is 18.\n\nQ: Tom has 5 pens.\nA: The answer is 5.", None, "18"),
    ("It is 18.\nQ: Tom has 5 pens.", None, "18"),
    ("The answer is 18. Q: Tom has 5 pens. A: The answer is 5.", None, "18"),
    ("It is 18.\n\n**Question 2:** Tom has 5 pens.", None, "18"),
    ("It is 18.\n\nProblem: Tom has 5 pens.", None, "18"),
    ("It is 18.\n\n### Problem 2\nTom has 5 pens.", None, "18"),
    ("It is 18.\n\nNext question: Tom has 5 pens.", None, "18"),
    ("#### 18\n\nQuestion: Tom has 5 pens.\n#### 5", "18", "18"),
    ("Question: Tom has 23 pens and loses 5.\nAnswer: 18", None, "18"),
    ("**Problem:** Tom has 23 pens and loses 5.\n\nHe keeps 18.", None, "18"),
    ("Let us see.\n\nQuestion: Tom has 23 pens and loses 5.\nAnswer: 18\n\nQuestion: 7?", None, "18"),
    ("That question is about 18 pens", None, "18"),
    ("#### 18<|im_end|>\n<|im_start|>user\nAnd 50 ducks?", "18", "18"),
    ("It is 18<|eot_id|><|start_header_id|>user<|end_header_id|>\n50 ducks", None, "18"),
    ("It is 18<end_of_turn>\n<start_of_turn>user\n50 ducks", None, "18"),
    ("It is 18</s>[INST] 50 ducks [/INST] 50", None, "18"),
    ("It is 18<|endoftext|>50 ducks", None, "18"),
    ("It is 18\n\nHuman: 50 ducks?\n\nAssistant: 50", None, "18"),
    ("It is 18\nUser: 50 ducks?", None, "18"),
    ("I cannot tell.<|im_end|>\n<|im_start|>user\n50 ducks", None, None),
    ("<|im_end|>\nIt is 18", None, "18"),
]

REASONING = [
    ("<think>9 * 2 = 18 or #### 20</think>#### 18", "18", "18"),
    ("<think>It said #### 50.</think>\nIt is 18.", None, "18"),
    ("maybe 20\n</think>\nIt is 18.", None, "18"),
    ("<think>a 1</think> x <think>b 2</think> It is 18", None, "18"),
    ("<think>\n\n</think>\n\n#### 18", "18", "18"),
    ("<thinking>20</thinking> 18", None, "18"),
    ("<reasoning>#### 20</reasoning><answer>18</answer>", None, "18"),
    ("[THINK]20[/THINK]18", None, "18"),
    ("<|channel|>analysis<|message|>#### 20<|end|><|start|>assistant<|channel|>final<|message|>#### 18", "18", "18"),
    ("<think>9 * 2 is 18 so #### 18", None, None),
    ("<think>The answer is 18.", None, None),
    ("The answer is 18. <think>or is it 20", None, "18"),
    ("<think>18</think>", None, None),
    ("<think>18</think>\nI do not know.", None, None),
]

NOTHING = [
    ("", None, None),
    ("\n \t", None, None),
    ("no idea", None, None),
    ("...", None, None),
    ("$", None, None),
    (",", None, None),
    ("-", None, None),
    ("9" * 5000, None, None),
    ("#### " + "9" * 5000, None, None),
    ("The answer is " + "9" * 5000, None, None),
    ("It is 18. " + "1" * 5000, None, "18"),
    ("#### 1" + ",000" * 2000, None, None),
    ("#### 1e999999999", "1", None),
]


@pytest.mark.parametrize(
    ("text", "strict", "flexible"),
    MARKERS
    + CURRENCY_AND_GROUPING
    + NUMBERS
    + WRAPPING
    + BOXES
    + PHRASES
    + STEPS_AND_LISTS
    + TURNS_AND_QUESTIONS
    + REASONING
    + NOTHING,
)
def test_reading(text, strict, flexible):
    assert extract(text, "flexible") == number(flexible)
    assert extract(text, "strict") == number(strict)


def test_a_number_beyond_any_answer_is_none():
    assert extract("#### " + "9" * 50) == Decimal("9" * 50)
    for rule in ("strict", "flexible"):
        assert extract("#### " + "9" * 51, rule) is None


# OpenAI's released solutions: real text of known scores (their test problems, solutions that end in "A: N").


@needs_official
@pytest.mark.parametrize(
    ("column", "correct"),
    [("6b_finetuning", 286), ("6b_verification", 515), ("175b_finetuning", 458), ("175b_verification", 742)],
)
def test_released_solutions_score_as_published(column, correct):
    golds = [gold_of(row["answer"]) for row in rows(TEST_SPLIT)]
    released = [row[column] for row in rows(RELEASED)]
    verdicts = [judge(sample["solution"], gold, "flexible")[1] for sample, gold in zip(released, golds, strict=True)]
    assert len(verdicts) == 1319
    assert sum(verdicts) == correct
    assert verdicts == [sample["is_correct"] for sample in released]
    assert sum(extract(sample["solution"]) is not None for sample in released) == 0  # none ends in '####'


@needs_official
def test_every_gold_solution_is_right_under_our_rules():
    for row in rows(TEST_SPLIT):
        for rule in ("strict", "flexible", "official", "lm_eval_strict", "lm_eval_flexible"):
            assert judge(row["answer"], gold_of(row["answer"]), rule)[1], (rule, row["answer"])


# Gold answers and the verdict.


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("18", 18),
        (" 540", 540),
        ("540\n", 540),
        ("-10", -10),
        ("1,450,000", 1450000),
        ("2.5", Decimal("2.5")),
        (18, 18),
        (Decimal("18"), 18),
        ("She has 3.\n#### 1,450,000", 1450000),
    ],
)
def test_gold(text, value):
    assert parse_gold(text) == value
    assert is_correct(Decimal(value), text)


@pytest.mark.parametrize(
    "text", ["", "no marker here", "eighteen", "1,45", "18 apples", "$18", "NaN", Decimal("NaN"), None]
)
def test_a_gold_that_is_no_number_is_refused(text):
    with pytest.raises(ValueError, match="gold answer must be a number"):
        parse_gold(text)
    with pytest.raises(ValueError, match="gold answer must be a number"):
        is_correct(None, text)  # no answer and no gold are not equal


def test_gold_of_a_solution():
    assert gold_of("It says #### 3 first.\n#### 1,018") == 1018
    with pytest.raises(ValueError, match="must end in '#### <number>'"):
        gold_of("The answer is 18")
    with pytest.raises(ValueError, match="got ' eighteen'"):
        gold_of("#### eighteen")


@pytest.mark.parametrize(
    ("predicted", "gold", "verdict"),
    [
        (Decimal("18"), "18", True),
        (Decimal("18.00"), "18", True),
        (Decimal("1450000"), "1,450,000", True),
        (Decimal("17.999999999999996"), "18", True),
        (Decimal("17.9999999"), "18", True),
        (Decimal("17.999999"), "18", False),  # exactly one millionth off
        (Decimal("8.5"), "9", False),
        (Decimal("1.0"), "10", False),
        (Decimal("-18"), "18", False),
        (Decimal("0"), "0", True),
        (Decimal("-0"), "0", True),
        (Decimal("123456"), "123457", False),
        (Decimal("NaN"), "18", False),
        (Decimal("Infinity"), "18", False),
        (Decimal("1e999999"), "18", False),
        (None, "18", False),
        (18, "18", True),
        (18.0, "18", True),
        (float("nan"), "18", False),
    ],
)
def test_verdict(predicted, gold, verdict):
    assert is_correct(predicted, gold) is verdict


def test_no_text_is_no_answer():
    for name in RULES:
        assert extract(None, name) is None
        assert judge(None, 18, name) == (None, False)


def test_judge_by_our_rules():
    assert judge("#### 18", "18") == (Decimal(18), True)
    assert judge("The answer is 18.00", Decimal(18), "flexible") == (Decimal(18), True)
    assert judge("no idea", 18, "flexible") == (None, False)
    with pytest.raises(ValueError, match="gold answer"):
        judge("#### 18", "no marker here")


def test_an_unknown_rule_is_refused_with_the_nearest():
    with pytest.raises(
        ValueError, match=r"unknown rule 'flexibel'; did you mean 'flexible'\? Rules: strict, flexible, off"
    ):
        extract("#### 18", "flexibel")
    with pytest.raises(ValueError, match="unknown rule 'zzz'"):
        judge("#### 18", 18, "zzz")


def test_rules_are_named_and_read_only():
    assert list(RULES)[:2] == ["strict", "flexible"]
    for name, rule in RULES.items():
        assert rule.name == name
        assert rule.description
        assert rule.source
    with pytest.raises(TypeError):
        RULES["mine"] = None


def test_the_callers_decimal_context_changes_nothing():
    with localcontext() as context:
        context.prec = 3
        assert extract("#### 123,456.5", "flexible") == Decimal("123456.5")
        assert judge("#### 123456", 123457, "flexible") == (Decimal(123456), False)
        assert extract("The answer is -123456", "flexible") == Decimal(-123456)
        assert extract("The answer is 12345/8", "flexible") == Decimal("1543.125")
