"""Build your own Transformer: twelve files that a student writes, each of them checked inside the whole model.

program/            the reference program, as a student has it after the last stage
table.py            the stages: which file each one is, what of it students write, which lessons prepare it
definition.py       what is checked in a stage, as exercises whose answers drivers make of a student's classes
drivers/            functions of plain arrays that run these classes; package.py runs them with the package's components
parts/, bugs.py     the parts of each stage with their known mistakes; the bugs of the zoo that belong to a stage
check.py, whole.py  checks a stage; trains the whole model with it, beside the library (corpus.py: on what)
watching.py         finds remembered arrays that are changed in place
folder.py, files.py a student's folder; which of its files run together with the reference's
progress.py         checks a stage in a folder and keeps the result; taken_over.py begins a folder with solved exercises
told.py, drawing.py what a student reads of a stage; the drawing of the Transformer
running.py          imports the student's program, so that trained.py can train it and published.py give it GPT-2's weights
report.py           what the page of a student's Transformer shows; report_page.py writes the page
"""
