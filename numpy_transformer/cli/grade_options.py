"""The options of `numpy-transformer grade` on what is graded, where, and what is written."""

import argparse
import os
from pathlib import Path

from ..grading import shards
from ..grading.arrival import LAYOUTS
from .parser import finite_number, whole_number

USAGE = """numpy-transformer grade FOLDER [options]
       numpy-transformer grade merge TABLE... --out FILE [outputs]
       numpy-transformer grade --doctor"""
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def add_options(parser):
    parser.add_argument("folder", metavar="FOLDER", nargs="*", help="the class as it was downloaded: a folder or a zip; "
                        "or the word merge and the tables to join")
    parser.add_argument("--only", metavar="NN.N", action="append",
                        help="grade only these exercises, such as 05.2 or 05.1,05.2, or a lesson's, such as 05, "
                             "or those of a test at the end of a part, test1 to test5, or stages of `build`, such as "
                             "stage1,stage2, or stages for all of them (default: all for which at least one student "
                             "submitted a file); in an existing table, the other rows stay as they are")
    parser.add_argument("--students", metavar="NAME", action="append",
                        help="grade only these students, such as kim,zoe, and leave the other rows of an existing table "
                             "as they are")
    parser.add_argument("--layout", choices=LAYOUTS, default="auto",
                        help="students: each name at the top is a student's, even if it looks like a system's (default: "
                             "auto, which recognizes the downloads of Canvas, Moodle, Blackboard and Gradescope, and "
                             "clones of GitHub; the command says what it recognized)")
    parser.add_argument("--seed", type=whole_number(0),
                        help="seed of the cases (default: that of the existing table, else a secret one, which is "
                             "printed)")
    add_outputs(parser)
    add_sandbox(parser)
    group = parser.add_argument_group("large classes and interrupted runs")
    group.add_argument("--shard", metavar="K/N", type=shard,
                       help="grade the students of part K of N, such as 3/16, for `grade merge`; needs --seed")
    group.add_argument("--jobs", type=whole_number(1, 64), default=min(CORES, 64),
                       help="number of students whose files run at the same time")
    group.add_argument("--retry", action="store_true",
                       help="run files again that were running when the grader was killed")


def shard(text):
    try:
        return shards.parse_shard(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def add_outputs(parser):
    group = parser.add_argument_group("outputs")
    group.add_argument("--out", metavar="FILE", type=Path,
                       help="the table; an existing file is renamed to FILE.bak (default: scores.csv, and "
                            "scores-K-of-N.csv with --shard)")
    group.add_argument("--json", metavar="FILE", type=Path,
                       help="the same results with all details and the seed, from which grading goes on later "
                            "(default: the table's name with .json)")
    group.add_argument("--feedback", metavar="DIR", type=Path, help="a text file for each student")
    group.add_argument("--overwrite", action="store_true",
                       help="replace files of these names even if this command did not write them, filled gradebooks "
                            "included")
    group.add_argument("--picture", metavar="FILE", type=Path,
                       help="picture of the class's results (default: the table's name with .png)")
    group.add_argument("--anonymous", metavar="FILE", type=Path,
                       help="page for the lecture after the deadline, with a picture beside it: how the exercises went "
                            "and the most frequent mistakes, without names; it shows lines of the solutions (.html)")


def add_sandbox(parser):
    group = parser.add_argument_group("sandbox")
    group.add_argument("--doctor", action="store_true", help="say what this machine offers for a sandbox, and end")
    group.add_argument("--trust-students", action="store_true",
                       help="grade without a sandbox: the files can then do whatever you can")
    group.add_argument("--allow-root", action="store_true", help="needed to use --trust-students as root")
    group.add_argument("--timeout", type=finite_number(0.5, 3600), default=10.0, help="time limit for each file, in seconds")
    group.add_argument("--memory", type=whole_number(256, 1 << 20), default=1024,
                       help="memory limit for each file, in megabytes")
