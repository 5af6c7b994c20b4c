"""What runs in the process of a student. These files import the standard library, NumPy and each other, nothing else.

supervisor.py, worker.py             serves one student; runs one file on the cases of one exercise
case_arguments.py                    calls it with the arguments of a case, and sees which of them were changed
limits.py, seccomp.py, landlock.py   limits of memory and imports, of system calls, and of files
tracing.py, instrumenting.py         the expressions of a program; recording their values
fingerprints.py, reruns.py           comparing values; running again with one small edit at a time
edits/                               these edits
"""
