"""Describes a wrong answer that no known mistake explains by its relation to the correct one, from its outputs alone.

pairs.py       a wrong output next to the correct one
whole_arrays.py  a factor, an offset, other axes, another order, a step too many or too few
terms.py       another array in its place, a term or a factor that is an argument, rows with a number of their own
places.py      where the wrong entries are
sequences.py   whole numbers: entries too many, off by one
cases.py       which cases, outputs and passes are correct
arguments.py   which arguments the answer does not depend on
"""

import functools
from dataclasses import dataclass, replace

import numpy as np

from ....texts import Message, listed
from ..comparison import same_but_for_ones, unlike
from . import cases, places, sequences, terms, whole_arrays
from .pairs import make_pairs

MOST = 3                                        # sentences that a student reads
EXACT = (whole_arrays.not_a_number, whole_arrays.one_number, whole_arrays.multiple, whole_arrays.offset,
         whole_arrays.opposite, whole_arrays.transposed, sequences.sequence, sequences.moved, whole_arrays.one_step,
         terms.other_array, terms.two_arguments)                # they hold for every entry
IDENTITIES = (*EXACT, terms.extra_factor, terms.extra_term)      # may hold where the output is correct: 0 plus 0 is 0
RELATIONS = (*IDENTITIES, whole_arrays.permuted, whole_arrays.wrong_reduction,
             whole_arrays.wrong_axes, places.limit, places.place, whole_arrays.other_sign, terms.by_row, sequences.off_by_one,
             sequences.one_sided, whole_arrays.nearly, sequences.same_beginning, terms.same_sums)
BESIDES_SHAPE = "relations.whole.besides_shape"
LIMITED = ("relations.wrong_only", "relations.whole.correct_if_finite", "relations.sequence.too_large",
           "relations.sequence.too_small")      # what they say holds where it says


@dataclass
class Relation:
    """What holds of one wrong output in every case in which it is wrong."""

    name: str                                   # of the output
    said: Message                               # such as "is the correct result transposed"
    exact: bool                                 # True if it explains every entry
    everywhere: bool                            # True if the output is wrong in every case
    where: Message = None                       # the cases in which it holds, if these are not all that are wrong


@np.errstate(all="ignore")
def relations(answer_key, answers):
    """Returns sentences about a wrong answer that are true in every case they speak of, the most specific first.

    The first list relates the outputs to the correct ones; the second says only which cases and outputs are correct.

    Parameters:
        answers : an Observation for each main case
    """
    if not answer_key.expected or not comparable(answer_key, answers):
        return [], []
    pairs = make_pairs(answer_key, answers)
    output_relations, correct = related(answer_key, pairs)
    sentences = [sentence(group, len(answer_key.main_cases)) for group in grouped(output_relations)][:MOST]
    facts = cases.errors(answer_key, answers)
    if not facts:
        fine = [answer_key.is_right(i, answer) for i, answer in enumerate(answers)]
        if not output_relations or not all(relation.everywhere for relation in output_relations):
            facts.append(cases.some_cases(answer_key, fine))
        correct = [ok and not has_other_type(answer_key, answers, j) for j, ok in enumerate(correct)]
        facts += [cases.exchanged(answer_key, pairs), cases.outputs(answer_key, correct)]
        facts += [places.wrong_lines(name, group) for name, group in zip(answer_key.exercise.outputs, pairs)
                  if name not in {relation.name for relation in output_relations}]
    return sentences, list(filter(None, facts))[:MOST - len(sentences)]


def has_other_type(answer_key, answers, j):
    """Returns True if output j is not of the type that is asked for, such as int64 in place of bool."""
    return any(unlike(answer.outputs[j].dtype, expected.outputs[j].dtype)
               for answer, expected in zip(answers, answer_key.expected))


@np.errstate(all="ignore")
def explains_everything(answer_key, answers):
    """Returns True if a relation explains every entry of every wrong output."""
    if not answer_key.expected or not comparable(answer_key, answers) or any(answer.error for answer in answers):
        return False
    output_relations, correct = related(answer_key, make_pairs(answer_key, answers))
    return len(output_relations) == correct.count(False) and all(
        relation.exact and relation.said.kind not in (whole_arrays.DEPENDS, BESIDES_SHAPE) for relation in output_relations)


def comparable(answer_key, answers):
    """Returns True if there are all outputs in all cases that raised no error, and at least one such case."""
    count = len(answer_key.exercise.outputs)
    finished = [answer for answer in answers if not answer.error]
    return bool(finished) and all(len(answer.outputs) == count for answer in finished)


def related(answer_key, pairs):
    """Returns the Relations, and for each output whether it is correct in every case."""
    output_relations, correct = [], []
    for name, group in zip(answer_key.exercise.outputs, pairs):
        wrong = [p for p in group if not p.fine]
        correct.append(not wrong)
        relation, said = first_relation(answer_key, name, wrong) if wrong else (None, None)
        if wrong and not said:
            output_relations += partly(answer_key, name, wrong, group)
        if said:
            everywhere = len(wrong) == len(answer_key.main_cases)
            if not everywhere and relation in IDENTITIES and len(group) == len(answer_key.main_cases):
                everywhere = relation(group) == said        # it may hold in the cases with a correct output, too
            output_relations.append(Relation(name, said, relation in EXACT, everywhere))
    return output_relations, correct


def partly(answer_key, name, wrong, group):
    """Returns a Relation that explains every entry in several of the cases in which an output is wrong, in a list, or []."""
    fewest = 3 if all(p.right.size == 1 for p in wrong) else 2
    for relation in EXACT:
        said = [(relation([p]), p) for p in wrong]
        for message in dict.fromkeys(message for message, _ in said if message):
            those = [p for other, p in said if other == message]
            if fewest <= len(those) and len(wrong) <= 2 * len(those) and relation(those) == message:
                where = cases.where(answer_key, [any(p is other for other in those) for p in group])
                return [Relation(name, message, False, False, where)]
    return []


def reshaped(wrong):
    """Returns the pairs with the shape of the correct output, if only axes of size 1 differ, or None."""
    if all(p.same_shape for p in wrong) or not all(same_but_for_ones(p.wrong.shape, p.right.shape) for p in wrong):
        return None
    return [replace(p, wrong=p.wrong.reshape(p.right.shape)) for p in wrong]


def first_relation(answer_key, name, wrong):
    """Returns the first relation that holds in all these cases, and its Message; None for it if there is none."""
    for relation in RELATIONS:
        said = relation(wrong)
        if said:
            return relation, said
    pairs = reshaped(wrong)
    for relation in EXACT if pairs else ():
        said = relation(pairs)
        if said:
            return relation, Message(BESIDES_SHAPE, relation=Message(said.kind, **said.values, n=1))
    relation = functools.partial(cases.one_pass, answer_key, name)
    return relation, relation(wrong)


def grouped(output_relations):
    """Returns the relations, those that say the same together, the exact ones first."""
    groups = {}
    for relation in sorted(output_relations, key=lambda relation: not relation.exact):
        groups.setdefault((relation.said, relation.everywhere, relation.where), []).append(relation)
    return list(groups.values())


def sentence(group, count):
    """Returns the Message for relations that say the same.

    Parameters:
        count : number of main cases
    """
    first, n = group[0], len(group)
    key, where = "plain", {}
    if first.said.kind == whole_arrays.NEARLY:
        key = "question"
    elif first.where:
        key, where = "in_cases", {"where": first.where}
    elif first.everywhere and count > 1 and first.said.kind != whole_arrays.DEPENDS:
        key = "everywhere"
    elif not first.everywhere and not first.said.kind.startswith(LIMITED):
        key = "sometimes"
    return Message(f"relations.sentence.{key}", n=n, names=listed([relation.name for relation in group]), **where,
                   relation=Message(first.said.kind, **first.said.values, n=n))
